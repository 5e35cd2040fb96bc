"""An LSTM for many agents at once, each with weights of its own.

torch's LSTM knows one set of weights; one call for each of fifteen agents would leave a GPU idle. Here a step is one
batched product and one piece of arithmetic, and the weights' gradient is one product for all steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transporter.control.replay import Memory


def step(z: Tensor, c: Tensor, keep: Tensor) -> tuple[Tensor, ...]:
    """Gates (a, b, 4m) and c (a, b, m) to h, then h and c as the next step finds them, then what the way back needs."""
    m = c.shape[-1]
    gates, candidate = torch.sigmoid(z[..., : 3 * m]), torch.tanh(z[..., 3 * m :])
    i, f, o = gates.chunk(3, -1)
    new = torch.addcmul(f * c, i, candidate)
    squashed = torch.tanh(new)
    h = o * squashed
    return h, h * keep, new * keep, gates, candidate, squashed


def step_back(
    dh: Tensor, dc: Tensor, keep: Tensor, c: Tensor, gates: Tensor, candidate: Tensor, squashed: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of a step's gates and of the c that it began with, from those of its h and of the next one's c."""
    i, f, o = gates.chunk(3, -1)
    dc = dc * keep + dh * o * (1 - squashed * squashed)
    dgates = torch.cat((dc * candidate, dc * c, dh * squashed), -1) * gates * (1 - gates)
    return torch.cat((dgates, dc * i * (1 - candidate * candidate)), -1), dc * f


class Arithmetic(NamedTuple):
    """Forward and backward of one step, apart from its product; compiled, each is a single kernel."""

    step: Callable[..., tuple[Tensor, ...]]
    step_back: Callable[..., tuple[Tensor, Tensor]]


PLAIN = Arithmetic(step, step_back)


def compiled() -> Arithmetic:
    return Arithmetic(torch.compile(step, dynamic=False), torch.compile(step_back, dynamic=False))


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, h: Tensor, c: Tensor, keep: Tensor, skip: int, arithmetic: Arithmetic
    ) -> tuple[Tensor, ...]:
        length = z.shape[1]
        after = [*keep.unbind(1)[1:], torch.ones_like(keep[:, 0])]  # nothing is forgotten after the last row
        h, c = h * keep[:, 0], c * keep[:, 0]
        outputs, began, saved = [], [], []
        for t in range(length):
            before = (h, c)
            output, h, c, *inner = arithmetic.step(torch.baddbmm(z[:, t], h, weight), c, after[t])
            if t >= skip:
                outputs.append(output)
                began.append(before[0])
                saved += [after[t], before[1], *inner]
        ctx.skip, ctx.arithmetic = skip, arithmetic
        ctx.save_for_backward(weight, torch.stack(began, 1), *saved)
        ctx.mark_non_differentiable(h, c)
        return torch.stack(outputs, 1), h, c

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, began, *saved = ctx.saved_tensors
        doutputs = gradients[0]
        dh = dc = torch.zeros_like(doutputs[:, 0])
        dz = []
        for t in reversed(range(doutputs.shape[1])):
            dz_t, dc = ctx.arithmetic.step_back(dh + doutputs[:, t], dc, *saved[5 * t : 5 * t + 5])
            dz.append(dz_t)
            dh = torch.bmm(dz_t, weight.mT)
            if t:
                dh = dh * saved[5 * (t - 1)]
        learnt = torch.stack(dz[::-1], 1)
        dweight = torch.bmm(began.flatten(1, 2).mT, learnt.flatten(1, 2))
        burnt = learnt.new_zeros(len(learnt), ctx.skip, *learnt.shape[2:])
        return torch.cat((burnt, learnt), 1), dweight, None, None, None, None, None


def unroll(
    z: Float[Tensor, "a t b 4m"],
    weight: Float[Tensor, "a m 4m"],
    memory: Memory,
    first: Bool[Tensor, "a t b"],
    skip: int = 0,
    arithmetic: Arithmetic = PLAIN,
) -> tuple[Float[Tensor, "a t-skip b m"], Memory]:
    """h at every step but the first `skip`, from what the inputs add to the gates (i, f, o, candidate).

    Forgets where `first` is set. Gradients reach z and weight from the rows that are not skipped, and go no further
    back: the memory from before them is burnt in, not learnt.
    """
    keep = (~first).to(z.dtype)[..., None]
    outputs, h, c = _Unroll.apply(z, weight, memory.h, memory.c, keep, skip, arithmetic)
    return outputs, Memory(h, c)
