"""An LSTM for many agents at once, each with weights of its own.

torch's LSTM knows one set of weights; one call for each of fifteen agents would leave a GPU idle. Here a step is one
batched product and a little arithmetic. On a GPU so many small kernels in a row are what takes the time: whatever does
not depend on the step before it is done for all steps at once.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transporter.control.replay import Memory

SHUT = -1e4  # added to a gate: its sigmoid is 0 exactly
Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None]


def forget_gates(memory: int) -> slice:
    """Where they are among the gates of so many units: after those of the input, before the output's and candidates."""
    return slice(memory, 2 * memory)


def one_step(z: Tensor, c: Tensor, new: Tensor, squashed: Tensor, h: Tensor) -> None:
    """Gates (a, b, 4m) opened in place; from them and c (a, b, m) the new c, its tanh, and h, into the last three."""
    m = c.shape[-1]
    i, f, o = z[..., : 3 * m].sigmoid_().chunk(3, -1)
    candidate = z[..., 3 * m :].tanh_()
    torch.mul(f, c, out=new).addcmul_(i, candidate)
    torch.tanh(new, out=squashed)
    torch.mul(o, squashed, out=h)


def compiled(device: torch.device) -> Step:
    """`one_step` as a single kernel, by torch.compile; as it is, with a word, where that does not work.

    It needs a compiler on the machine.
    """
    made = torch.compile(one_step, dynamic=False)
    try:
        made(*(torch.zeros(1, 1, n, device=device) for n in (16, 4, 4, 4, 4)))
    except Exception as error:  # of many kinds: dynamo's, inductor's, Triton's, the compiler's own
        warnings.warn(f"the memory is not compiled: {str(error).splitlines()[0]}", stacklevel=2)
        return one_step
    return made


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, z: Tensor, weight: Tensor, h: Tensor, c: Tensor, first: Tensor, skip: int, step: Step
    ) -> tuple[Tensor, ...]:
        first = first.transpose(0, 1)[..., None]  # time before all else from here on
        z = z.transpose(0, 1).clone(memory_format=torch.contiguous_format)  # gates open in place
        m = h.shape[-1]
        z[..., forget_gates(m)].masked_fill_(first, SHUT)  # what an episode begins with does not keep c
        keep = (~first).to(z.dtype)
        cs, hs = z.new_empty(len(z) + 1, *c.shape), z.new_empty(len(z) + 1, *h.shape)
        cs[0], hs[0] = c, h
        squashed = torch.empty_like(cs[1:])
        for t in range(len(z)):
            step(z[t].baddbmm_(hs[t] * keep[t], weight), cs[t], cs[t + 1], squashed[t], hs[t + 1])
        ctx.skip = skip
        ctx.save_for_backward(weight, z[skip:], cs[skip:-1], squashed[skip:], hs[skip:-1], keep[skip:])
        h, c = hs[-1].clone(), cs[-1].clone()
        ctx.mark_non_differentiable(h, c)
        return hs[skip + 1 :].transpose(0, 1).contiguous(), h, c

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        weight, z, cs, squashed, hs, keep = ctx.saved_tensors
        doutputs = gradients[0].transpose(0, 1)
        m = cs.shape[-1]
        gates, candidate = z[..., : 3 * m], z[..., 3 * m :]
        i, f, o = gates.chunk(3, -1)
        # How much the gates, before they open, do to c (those of i, f and the candidate) and to h (that of o).
        slopes = torch.cat((candidate, cs, squashed), -1).mul_(torch.addcmul(gates, gates, gates, value=-1))
        slopes = torch.cat((slopes, torch.addcmul(i, i * candidate, candidate, value=-1)), -1).unflatten(-1, (4, m))
        through = torch.addcmul(o, o * squashed, squashed, value=-1)  # from h to c
        dz = torch.empty_like(slopes)
        later = dc = torch.zeros_like(cs[0])
        ends = torch.ones_like(keep[0])
        for t in reversed(range(len(z))):
            dh = torch.addcmul(doutputs[t], later, keep[t + 1] if t + 1 < len(z) else ends)
            dc = torch.addcmul(dc, dh, through[t])
            torch.mul(slopes[t], dc[..., None, :], out=dz[t])
            torch.mul(slopes[t, ..., 2, :], dh, out=dz[t, ..., 2, :])
            later = torch.bmm(dz[t].flatten(-2), weight.mT)
            dc = dc * f[t]  # nothing, where an episode begins
        learnt = dz.flatten(-2).transpose(0, 1)
        began = (hs * keep).transpose(0, 1)
        dweight = torch.bmm(began.flatten(1, 2).mT, learnt.flatten(1, 2))
        burnt = learnt.new_zeros(len(learnt), ctx.skip, *learnt.shape[2:])
        return torch.cat((burnt, learnt), 1), dweight, None, None, None, None, None


def unroll(
    z: Float[Tensor, "a t b 4m"],
    weight: Float[Tensor, "a m 4m"],
    memory: Memory,
    first: Bool[Tensor, "a t b"],
    skip: int = 0,
    step: Step = one_step,
) -> tuple[Float[Tensor, "a t-skip b m"], Memory]:
    """h at every step but the first `skip`, from what the inputs add to the gates (i, f, o, candidate).

    Forgets where `first` is set. Gradients reach z and weight from the rows that are not skipped, and go no further
    back: the memory from before them is burnt in, not learnt.
    """
    outputs, h, c = _Unroll.apply(z, weight, memory.h, memory.c, first, skip, step)
    return outputs, Memory(h, c)
