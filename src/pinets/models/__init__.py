"""Networks by name, and the classes they are made of."""

from pinets.models._iresnet import IResNet
from pinets.models._monet import MONet, MultilinearLayer, monet
from pinets.models._polynomial_resnet import DropBlock, polynomial_resnet
from pinets.models.activation_free import (
    ccp_generator,
    linear_generator,
    ncp_generator,
    ncp_skip_generator,
    prodpoly_generator,
    strided_discriminator,
)
from pinets.models.cards import Card
from pinets.models.generator import ImageGenerator
from pinets.models.insightface import insightface_keys, load_insightface
from pinets.models.mesh_autoencoder import MeshAutoencoder
from pinets.models.mesh_graph import graph_autoencoder
from pinets.models.mesh_pca import MeshPCA
from pinets.models.polynext import PolyNeXt
from pinets.models.polynext_layers import PixelBatchNorm
from pinets.models.polynext_weights import load_published_polynext
from pinets.models.polynomial_classifier import PolynomialClassifier, ccp_classifier, ccp_conv_classifier
from pinets.models.pretrained import list_weights, load_weights, read_card
from pinets.models.prodpoly_resnet import pinet18, prodpoly_resnet_cifar
from pinets.models.registry import ModelEntry, create_model, list_models, model_entry, register
from pinets.models.residual import (
    Add,
    BasicBlock,
    Bottleneck,
    Multiply,
    Scale,
    Site,
    local_product,
    normalised_product,
    scaled_product,
    tanh_product,
)
from pinets.models.resnet import ResNet, resnet_cifar, resnet_imagenet
from pinets.models.sngan import (
    SNGANDiscriminator,
    sngan_discriminator,
    sngan_generator,
    sngan_ncp_generator,
    sngan_prodpoly_generator,
)
from pinets.models.spiral import spiral_autoencoder
from pinets.models.strict_convnet import StrictConvNet
from pinets.models.stylegan import (
    StyleGenerator,
    stylegan_discriminator,
    stylegan_generator,
    stylegan_prodpoly_generator,
)

__all__ = [
    "ModelEntry",
    "create_model",
    "list_models",
    "model_entry",
    "register",
    "Card",
    "list_weights",
    "load_weights",
    "read_card",
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
    "resnet_cifar",
    "resnet_imagenet",
    "prodpoly_resnet_cifar",
    "pinet18",
    "polynomial_resnet",
    "DropBlock",
    "IResNet",
    "insightface_keys",
    "load_insightface",
    "MONet",
    "MultilinearLayer",
    "monet",
    "PolyNeXt",
    "StrictConvNet",
    "PixelBatchNorm",
    "load_published_polynext",
    "PolynomialClassifier",
    "ccp_classifier",
    "ccp_conv_classifier",
    "ImageGenerator",
    "ccp_generator",
    "linear_generator",
    "ncp_generator",
    "ncp_skip_generator",
    "prodpoly_generator",
    "strided_discriminator",
    "SNGANDiscriminator",
    "sngan_discriminator",
    "sngan_generator",
    "sngan_ncp_generator",
    "sngan_prodpoly_generator",
    "StyleGenerator",
    "stylegan_discriminator",
    "stylegan_generator",
    "stylegan_prodpoly_generator",
    "MeshAutoencoder",
    "MeshPCA",
    "graph_autoencoder",
    "spiral_autoencoder",
]
