"""Norm and ReLU of a layer: as one on a GPU, in turn elsewhere."""

from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transporter.models.convolutions import unphase
from transporter.models.fused import fits

Layout = Literal["plain", "unphased", "blocked"]


def norm_relu(z: Float[Tensor, "b _ h w"], norm: nn.Module, layout: Layout = "plain") -> Float[Tensor, "b _ H W"]:
    """relu(norm(z)).

    unphased: z is four phases of a map twice as fine, which comes out. blocked: the places of each 4×4 block come out
    as channels where that costs nothing, on a GPU, and the map as it is elsewhere.
    """
    if isinstance(norm, nn.BatchNorm2d) and norm.training and fits(z, norm.num_features):
        from transporter.models.fused.norm import BLOCKED, PLAIN, UNPHASED, BatchNormReLU

        whole = z.shape[2] % 4 == 0 and z.shape[3] % 4 == 0
        number = {"plain": PLAIN, "unphased": UNPHASED, "blocked": BLOCKED if whole else PLAIN}[layout]
        learnt, running = (norm.weight, norm.bias), (norm.running_mean, norm.running_var)
        return BatchNormReLU.apply(z, *learnt, *running, norm.momentum, norm.eps, number)
    return F.relu(norm(unphase(z) if layout == "unphased" else z), inplace=True)
