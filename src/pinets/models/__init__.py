"""Networks by name, and the classes they are made of."""

from pinets.models.blocks import BasicBlock, Bottleneck
from pinets.models.dropblock import DropBlock
from pinets.models.generation import ImageGenerator
from pinets.models.insightface import insightface_keys, load_insightface
from pinets.models.iresnet import IResNet, iresnet
from pinets.models.join import Add, Multiply, Scale, Site
from pinets.models.monet import MONet, MultilinearLayer, monet
from pinets.models.pinet import pinet18
from pinets.models.polynomial_classifier import PolynomialClassifier, ccp_classifier, ccp_conv_classifier
from pinets.models.polynomial_resnet import polynomial_resnet
from pinets.models.prodpoly_iresnet import prodpoly_iresnet
from pinets.models.prodpoly_resnet import prodpoly_resnet_cifar
from pinets.models.product import local_product, normalised_product, scaled_product, tanh_product
from pinets.models.registry import ModelEntry, create_model, list_models, model_entry, register
from pinets.models.resnet import ResNet, resnet_cifar, resnet_imagenet
from pinets.models.spiral import MeshAutoencoder, MeshPCA, graph_autoencoder, spiral_autoencoder

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
    "IResNet",
    "ImageGenerator",
    "insightface_keys",
    "iresnet",
    "load_insightface",
    "prodpoly_iresnet",
    "resnet_cifar",
    "resnet_imagenet",
    "prodpoly_resnet_cifar",
    "pinet18",
    "polynomial_resnet",
    "monet",
    "PolynomialClassifier",
    "ccp_classifier",
    "ccp_conv_classifier",
    "MeshAutoencoder",
    "MeshPCA",
    "graph_autoencoder",
    "spiral_autoencoder",
]
