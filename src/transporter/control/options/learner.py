"""Learning K × 4 Q-functions by n-step Q(λ), all of them from all experience."""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from transporter.control.options.choice import q_gap, safe, without_risk
from transporter.control.options.config import LearningConfig
from transporter.control.options.eyes import Eyes
from transporter.control.options.network import OptionsNet
from transporter.control.options.rewards import displacement_rewards, jumped
from transporter.control.replay import Memory, SequenceReplay, Window
from transporter.control.returns import q_lambda_returns, watkins_traces
from transporter.training.distributed import SharedStep


def option_returns(
    rewards: Float[Tensor, "t b k 4"],
    discounts: Float[Tensor, "t b"],
    values: Float[Tensor, "t b k 4"],
    trace: float,
    going_on: Bool[Tensor, "t b"],
    along: Bool[Tensor, "t b #k #4"] | None = None,
) -> Float[Tensor, "t b k 4"]:
    """Q(λ) of every option at once. values_t is max Q of the state after t; a trace goes no farther than an episode.

    `going_on` is False at a row that holds no transition. With `along` a trace goes on only along actions of which it
    is true: those that an option would take itself (Watkins's), or that it might take, being safe.
    """
    after = torch.cat((going_on[1:], going_on[-1:]))[..., None, None]
    traces = trace * after.float() if along is None else watkins_traces(trace, along) * after
    return q_lambda_returns(rewards, discounts[..., None, None].expand_as(rewards), values, traces.expand_as(rewards))


class Loss(NamedTuple):
    """Of a batch of sequences."""

    total: Float[Tensor, ""]
    real: Float[Tensor, ""]  # number of the transitions that it is the mean of
    gaps: Float[Tensor, "k"]  # Eq. 2, mean over states
    jumps: Float[Tensor, "k"]  # share of steps in which a keypoint changed its object
    risk: Float[Tensor, ""]  # that the safest action costs the life, as guessed: below 0, too; 0 without caution
    forbidden: Float[Tensor, ""]  # share of the actions that caution leaves out


class Learner:
    """The network, its frozen twin and Adam: everything that learning changes."""

    def __init__(
        self, config: LearningConfig, network: OptionsNet, eyes: Eyes, replay: SequenceReplay, capture: bool = False
    ) -> None:
        self.config, self.network, self.eyes, self.replay = config, network, eyes, replay
        self.frozen = copy.deepcopy(network).requires_grad_(False)
        self.done = 0
        device = network.recall.device
        self.players = torch.zeros(config.batch, dtype=torch.int64, device=device)
        self.starts = torch.ones(config.batch, dtype=torch.int64, device=device)
        self.loss = torch.zeros((), device=device)
        self.count = torch.zeros((), device=device)
        self.gaps = torch.zeros(network.keypoints, device=device)
        self.jumps = torch.zeros(network.keypoints, device=device)
        self.risk = torch.zeros((), device=device)
        self.forbidden = torch.zeros((), device=device)
        self.bad = torch.zeros((), device=device)  # updates left out because a gradient was not finite
        self.parameters: list[Tensor] = list(network.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters, lr=config.rate, eps=config.epsilon, fused=True, capturable=device.type == "cuda"
        )
        for parameter in self.parameters:  # made now rather than by the first step, so that capturing finds them
            self.optimiser.state[parameter] = {
                "step": torch.zeros((), device=device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        self._gradients = [torch.zeros_like(parameter) for parameter in self.parameters]
        shared = [*self._gradients, self.count, *self._said().values()]
        changed = list(self.tensors().values())
        self._step = SharedStep(self._differentiate, self._apply, lambda: shared, lambda: changed, capture)

    def update(self, players: Int64[Tensor, "b"], starts: Int64[Tensor, "b"]) -> None:
        """One update from the sequences of these players that begin at these rows. Nothing waits for the GPU."""
        self.players.copy_(players, non_blocking=True)
        self.starts.copy_(starts, non_blocking=True)
        self._step()
        self.done += 1

    def loss_of(self, window: Window) -> Loss:
        """Squared error of every Q-function, mean over states, sum over functions."""
        c, caution = self.config, self.network.config.caution
        frames, first = window.rows[0], window.before.first[0]
        memory = Memory(*(part[0] for part in window.memory))
        action, _, discount, real = (part[0, c.burn_in :] for part in window.outcome)
        thought = self.network(frames, first, memory, c.burn_in)
        q = thought.q
        with torch.no_grad():
            judged = self.frozen(frames, first, memory, c.burn_in)
            shown = frames[c.burn_in :]
            points = self.eyes(shown.flatten(0, 1)).unflatten(0, shown.shape[:2])
            action, discount, real = action[:-1], discount[:-1], real[:-1]
            lasts = real & (discount > 0)
            # Where an episode ends things are put elsewhere: no one moved them.
            rewards = displacement_rewards(points[:-1], points[1:], c.jump) * lasts[..., None, None]
            taken = action[..., None, None, None].expand(*q[:-1].shape[:-1], 1)
            along = allowed = prudent = None
            if caution:
                allowed = safe(thought.safety, caution)[:-1]
                prudent = allowed.gather(-1, action[..., None])[..., 0]
                along = prudent[..., None, None]
            if c.watkins:
                along = without_risk(q, thought.safety, caution)[:-1].argmax(-1) == taken[..., 0]
            values = without_risk(judged.q, judged.safety, caution)[1:].amax(-1)
            target = option_returns(rewards, c.discount * discount, values, c.trace, real, along)
            jumps = (jumped(points[:-1], points[1:], c.jump) & lasts[..., None]).float().mean((0, 1))
        error = (q[:-1].gather(-1, taken)[..., 0] - target).square().sum((-1, -2)) / 2
        risk = forbidden = error.new_zeros(())
        if allowed is not None and prudent is not None:
            known = thought.safety[:-1].gather(-1, action[..., None])[..., 0]
            error = error + self._risk(known, judged.safety[1:], prudent, discount, real)
            risk, forbidden = -thought.safety.detach().amax(-1).mean(), 1 - allowed.float().mean()
        count, gaps = real.sum().clamp_min(1), q_gap(q.detach()).mean((0, 1))
        return Loss((error * real).sum() / count, count.float(), gaps, jumps, risk, forbidden)

    def _risk(
        self,
        known: Float[Tensor, "t b"],
        after: Float[Tensor, "t b a"],
        prudent: Bool[Tensor, "t b"],
        discount: Float[Tensor, "t b"],
        real: Bool[Tensor, "t b"],
    ) -> Float[Tensor, "t b"]:
        """Squared error of what is known of lost lives: Q(λ) of one more reward, -1 where one is lost.

        By the safest play afterwards: traces go on only along what is safe. Peng's, which follow whatever was played,
        would blame a ledge for those who leapt from it, and leap and stay would look alike. The best of several
        guesses is often one that is too good: better than certain to live, none is taken for.
        """
        with torch.no_grad():
            lost, best = -(real & (discount == 0)).float(), after.amax(-1).clamp(-1, 0)
            lost, best, prudent = (x[..., None, None] for x in (lost, best, prudent))  # as if of one option
            discounts = self.config.foresight * discount
            target = option_returns(lost, discounts, best, self.config.trace, real, prudent)[..., 0, 0]
        return (known - target).square() / 2

    def _differentiate(self) -> None:
        window = self.replay.sequences(self.players, self.starts, self.config.length)
        with torch.enable_grad():
            loss = self.loss_of(window)
            # Times the count, by which it is divided again: shares of a batch weigh as much as there is in them.
            whole = loss.total * loss.real
            gradients = torch.autograd.grad(whole, self.parameters)
        with torch.no_grad():
            # Laid out as the parameters are, which cuDNN's need not be: Adam goes through both in one sweep.
            torch._foreach_copy_(self._gradients, gradients)
            said = (loss.real, whole.detach(), loss.gaps, loss.jumps, loss.risk, loss.forbidden)
            for kept, new in zip((self.count, *self._said().values()), said, strict=True):
                kept.copy_(new)

    @torch.no_grad()
    def _apply(self) -> None:
        self.loss.div_(self.count)
        torch._foreach_div_(self._gradients, self.count)
        norm = torch.nn.utils.get_total_norm(self._gradients)
        finite = torch.isfinite(norm)
        scale = (self.config.clip / (norm + 1e-6)).clamp(max=1)
        for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
            parameter.grad = (gradient * scale).masked_fill_(~finite, 0)
        self.bad.add_((~finite).float())
        self.optimiser.step()
        torch._foreach_lerp_(list(self.frozen.parameters()), self.parameters, self.config.target_rate)

    # State

    def tensors(self) -> dict[str, Tensor]:
        """By name; in place, so that a captured update goes on with the same memory."""
        named = {f"online.{name}": p.detach() for name, p in self.network.named_parameters()}
        named |= {f"frozen.{name}": p for name, p in self.frozen.named_parameters()}
        for name, parameter in self.network.named_parameters():
            named |= {f"adam.{slot}.{name}": t for slot, t in self.optimiser.state[parameter].items()}
        return {**named, "bad": self.bad, **self._said()}

    def _said(self) -> dict[str, Tensor]:
        """What is told of the last update."""
        told = {"loss": self.loss, "gaps": self.gaps, "jumps": self.jumps}
        return {**told, "risk": self.risk, "forbidden": self.forbidden}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], done: int) -> None:
        for name, tensor in self.tensors().items():
            if name in tensors or name not in self._said():  # which earlier versions did not keep
                tensor.copy_(tensors[name])
        self.done = done
