"""Kernels of points, and their feature maps."""

from bdr_stan.kernels import shapes
from bdr_stan.kernels.bandwidth import check_bandwidth as check_bandwidth
from bdr_stan.kernels.bandwidth import column_spreads as column_spreads
from bdr_stan.kernels.bandwidth import median_bandwidth
from bdr_stan.kernels.description import kernel_config as kernel_config
from bdr_stan.kernels.description import kernel_from_config as kernel_from_config
from bdr_stan.kernels.description import kernel_text as kernel_text
from bdr_stan.kernels.feature_maps import ConcatenatedFeatures as ConcatenatedFeatures
from bdr_stan.kernels.feature_maps import FeatureMap, LandmarkFeatures
from bdr_stan.kernels.feature_maps import NystromFeatures as NystromFeatures
from bdr_stan.kernels.fields import FieldFeatures as FieldFeatures
from bdr_stan.kernels.fields import field_names as field_names
from bdr_stan.kernels.fields import map_kernel
from bdr_stan.kernels.hilbert_space import HilbertProduct, HilbertSpace
from bdr_stan.kernels.inner_products import Linear, LinearEffects, Polynomial, QuadraticEffects
from bdr_stan.kernels.kernel import Kernel
from bdr_stan.kernels.kernel import Product as Product
from bdr_stan.kernels.kernel import Sum as Sum
from bdr_stan.kernels.names import check_kernel as check_kernel
from bdr_stan.kernels.names import check_kernel_and_bandwidth as check_kernel_and_bandwidth
from bdr_stan.kernels.names import kernel_named as kernel_named
from bdr_stan.kernels.names import resolve_kernel as resolve_kernel
from bdr_stan.kernels.normal_scores import NormalScores
from bdr_stan.kernels.shapes import *  # noqa: F403
from bdr_stan.kernels.shapes import KERNELS
from bdr_stan.kernels.stationary import Stationary
from bdr_stan.kernels.summands import SummandFeatures as SummandFeatures
from bdr_stan.kernels.summands import fields_of as fields_of
from bdr_stan.kernels.summands import landmark_features as landmark_features
from bdr_stan.kernels.summands import summands as summands

__all__ = [
    "KERNELS",
    "FeatureMap",
    "HilbertProduct",
    "HilbertSpace",
    "Kernel",
    "LandmarkFeatures",
    "Linear",
    "LinearEffects",
    "NormalScores",
    "Polynomial",
    "QuadraticEffects",
    "Stationary",
    "map_kernel",
    "median_bandwidth",
]
__all__ += shapes.__all__
