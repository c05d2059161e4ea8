"""Networks by name, and the classes they are made of."""

from pinets.models.blocks import BasicBlock, Bottleneck
from pinets.models.dropblock import DropBlock
from pinets.models.join import Add, Multiply, Scale, Site
from pinets.models.monet import MONet, MultilinearLayer, monet
from pinets.models.pinet import pinet18
from pinets.models.polynomial_resnet import polynomial_resnet
from pinets.models.prodpoly_resnet import prodpoly_resnet_cifar
from pinets.models.product import local_product, normalised_product, scaled_product, tanh_product
from pinets.models.registry import ModelEntry, create_model, list_models, model_entry, register
from pinets.models.resnet import ResNet, resnet_cifar, resnet_imagenet

__all__ = [
    "ModelEntry",
    "create_model",
    "list_models",
    "model_entry",
    "register",
    "ResNet",
    "BasicBlock",
    "Bottleneck",
    "Add",
    "Multiply",
    "Scale",
    "Site",
    "local_product",
    "normalised_product",
    "scaled_product",
    "tanh_product",
    "MONet",
    "MultilinearLayer",
    "DropBlock",
    "resnet_cifar",
    "resnet_imagenet",
    "prodpoly_resnet_cifar",
    "pinet18",
    "polynomial_resnet",
    "monet",
]
