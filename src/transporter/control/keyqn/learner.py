"""Fitting Q from replay, for many agents at once: one update of all of them is one sequence of kernels."""

import contextlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from transporter.control.keyqn.config import LearningConfig
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.priorities import Priorities
from transporter.control.keyqn.weights import Weights
from transporter.control.replay import SequenceReplay, Window
from transporter.control.returns import n_step_returns, q_lambda_returns, rescale, unscale, watkins_traces
from transporter.models.graphs import Captured

BLUR = 0.75  # standard deviation of a target, in bins (Farebrother et al. 2024)
FRESH = 7_919  # a prime that keeps the seeds of first weights and of resets apart
# A mean of t updates is renewed by 9 / (t + 9): they are a tenth of them old, on average, and what was fresh is soon
# forgotten (Shamir & Zhang 2013, η = 8).
RECENT = 9


def misfit(scores: Float[Tensor, "*n bins"], target: Float[Tensor, "*n"], limit: float) -> Float[Tensor, "*n"]:
    """How far a histogram, given by its logits, is from the one of a target; or, with one bin, a value from it."""
    if scores.shape[-1] == 1:
        return F.smooth_l1_loss(scores[..., 0], target, reduction="none")
    return -(histogram(target, scores.shape[-1], limit) * scores.log_softmax(-1)).sum(-1)


def histogram(target: Float[Tensor, "*n"], bins: int, limit: float) -> Float[Tensor, "*n bins"]:
    """A normal distribution around the target, cut into bins over [-limit, limit] (HL-Gauss)."""
    width = 2 * limit / bins
    edges = torch.arange(bins + 1, device=target.device) * width - limit
    below = torch.erf((edges - target.clamp(-limit, limit)[..., None]) / (BLUR * width * 2**0.5))
    return below.diff(dim=-1) / (below[..., -1:] - below[..., :1])


def near_best(taken: Float[Tensor, "a t b"], best: Float[Tensor, "a t b"], tolerance: float) -> Bool[Tensor, "a t b"]:
    """Where the action taken is worth nearly as much as the best; how near is a share of each agent's mean worth."""
    return best - taken <= tolerance * best.abs().mean((1, 2), keepdim=True)


class Fit(NamedTuple):
    """How well values fit their targets, over the rows of a window that are learnt from."""

    loss: Float[Tensor, "a"]
    value: Float[Tensor, "a"]  # mean Q of the actions taken
    off: Float[Tensor, "a t b"]  # by how much each is too low; 0 where there is nothing to learn


class Learner:
    """The networks of all agents, their frozen twins, Adam, and the schedules: everything that learning changes."""

    def __init__(
        self,
        config: LearningConfig,
        network: QNetwork,
        replay: SequenceReplay,
        seeds: Sequence[int],
        total: int,
        capture: bool = False,
    ) -> None:
        self.config, self.network, self.replay, self.seeds = config, network, replay, list(seeds)
        self.total, self.done, self.since = total, 0, 0  # updates to make, made, and made since the last reset
        device = network.legal.device
        self.online = torch.nn.Parameter(self._fresh().to(device))
        self.frozen = self.online.detach().clone()
        self.playing = self.frozen.clone()  # what plays while an update goes on: see hand_over
        self.steady = self.frozen.clone() if config.steady else None
        self.gradient = torch.zeros_like(self.frozen)
        self._last = network.layout.last().to(device)
        agents = len(self.seeds)
        self.starts = torch.ones(agents, config.batch, dtype=torch.int64, device=device)
        places = network.inputs.places if config.jitter else 0
        self.offsets = torch.zeros(agents, config.batch, places, 2, device=device)  # how far off keypoints are shown
        self.steps = torch.tensor(config.steps_start, device=device)
        self.gamma = torch.tensor(config.gamma_start, device=device)
        self.mix = torch.tensor(config.target_rate, device=device)
        self.renewed = torch.tensor(config.steady, device=device)
        self.loss = torch.zeros(agents, device=device)
        self.value = torch.zeros(agents, device=device)  # mean Q of the actions taken, as it is learnt
        self.rate = torch.tensor(config.rate, device=device)
        self.bad = torch.zeros(agents, device=device)  # updates left out because a gradient was not finite
        self.priorities: Priorities | None = None
        if config.priority:
            self.priorities = Priorities(agents, replay.capacity, config.priority, config.correction, device)
        self.optimiser = torch.optim.AdamW(
            [self.online], lr=self.rate, eps=config.epsilon, weight_decay=config.weight_decay,
            fused=True, capturable=device.type == "cuda",
        )  # fmt: skip
        # Made now rather than by the first step, so that capturing finds them in place.
        self.optimiser.state[self.online] = {
            "step": torch.zeros((), device=device),
            "exp_avg": torch.zeros_like(self.frozen),
            "exp_avg_sq": torch.zeros_like(self.frozen),
        }
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        changed = [self.online, *self._tensors().values()]
        self._captured = Captured(self._update, lambda: changed, capture)

    @property
    def numbers(self) -> int:
        """How many of [0, 1) decide a window."""
        return self._for_start + self.offsets[0, 0].numel()

    @property
    def _for_start(self) -> int:
        """How many of those say where it begins; the rest, where its keypoints are shown."""
        return 2 if self.priorities else 1

    def draw(self, draws: Float[Tensor, "a b numbers"], count: int) -> None:
        """What the next update learns from: windows of which the last row is `count` at most."""
        c = self.config
        if self.priorities is None:
            starts = 1 + (draws[..., 0] * (count - c.length + 1)).long()
        else:
            starts = self.priorities.draw(draws, range(1 + c.burn_in, count), c.unroll) - c.burn_in
        self.starts.copy_(starts)
        if c.jitter:
            self.offsets.copy_((2 * draws[..., self._for_start :].view_as(self.offsets) - 1) * c.jitter)

    def update(self) -> None:
        """One update of every agent from the windows drawn last. Nothing here waits for the GPU."""
        c = self.config
        self.rate.fill_(c.rate * c.rate_left(self.done, self.total))
        self.steps.fill_(c.steps(self.since))
        self.gamma.fill_(c.gamma(self.since))
        refit = float((self.done + 1) % c.refit_every == 0) if c.refit_every else c.target_rate
        self.mix.fill_(refit)
        self.renewed.fill_(max(c.steady, RECENT / (self.since + RECENT)))
        self._captured()
        self.done += 1
        self.since += 1
        if c.reset_every and self.since >= c.reset_every and self.done <= c.reset_until * self.total:
            self.reset()

    def fit(self, weights: Weights, frozen: Weights, window: Window, counts: Tensor | float = 1.0) -> Fit:
        """Means of each agent over the rows of windows that are learnt from; an error counts so much: (a, t, b)."""
        c, network = self.config, self.network
        read = network.read(window.rows, window.earlier)
        with torch.no_grad(), self._beside():
            thought = network(frozen, read, window.before, window.memory, c.burn_in)
        q, _, scores, _ = network(weights, read, window.before, window.memory, c.burn_in)
        self._meet()
        action, reward, discount, real = (part[:, c.burn_in :] for part in window.outcome)
        with torch.no_grad():
            best = (q if c.double else thought.q).argmax(-1, keepdim=True)
            worth = thought.least.gather(-1, best)[..., 0]
            worth = unscale(worth) if c.rescale else worth
            over_time = (reward, self.gamma * discount, worth, real)
            rewards, discounts, values, goes_on = (x.movedim(1, 0) for x in over_time)
            taken = q.gather(-1, action[..., None])[..., 0]
            if c.trace:
                near = near_best(taken, q.amax(-1), c.tolerance).movedim(1, 0)
                traces = watkins_traces(c.trace, near & goes_on)[:-1]  # none goes on through a row without an action
                returns = q_lambda_returns(rewards[:-1], discounts[:-1], values[1:], traces)
            else:
                most = max(c.steps_start, c.steps_end)
                returns = n_step_returns(rewards[:-1], discounts[:-1], values[1:], self.steps, goes_on[:-1], most)
            target = (rescale(returns) if c.rescale else returns).movedim(0, 1)
            taken = taken[:, :-1]
        chosen = action[..., None, None].expand(len(scores), *action.shape, 1, scores.shape[-1])
        # Of all opinions, so that each learns as fast as one alone would.
        said = scores.gather(-2, chosen)[:, :, :-1, :, 0]
        error = misfit(said, target.expand(said.shape[:-1]), network.config.limit).sum(0)
        known = real[:, :-1].float()
        count = known.sum((1, 2)).clamp_min(1)
        loss, value = (error * known * counts).sum((1, 2)) / count, (taken * known).sum((1, 2)) / count
        return Fit(loss, value, (target - taken) * known)

    def _beside(self) -> contextlib.AbstractContextManager[object]:
        """On a GPU, what follows runs beside what comes after it: neither keeps the whole of it busy."""
        if self._stream is None:
            return contextlib.nullcontext()
        self._stream.wait_stream(torch.cuda.current_stream())
        return torch.cuda.stream(self._stream)

    def _meet(self) -> None:
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    def _update(self) -> None:
        layout = self.network.layout
        c, priorities = self.config, self.priorities
        window = self.replay.window(self.starts, c.length)
        if c.jitter:
            rows, earlier = (
                self.network.inputs.shifted(part, self.offsets[:, None]) for part in (window.rows, window.earlier)
            )
            window = window._replace(rows=rows, earlier=earlier)
        learnt = self.starts + c.burn_in
        counts = 1.0 if priorities is None else priorities.weights(learnt, c.unroll)
        weights = {name: view.detach().requires_grad_() for name, view in layout.views(self.online.detach()).items()}
        with torch.enable_grad():
            loss, value, off = self.fit(weights, layout.views(self.frozen), window, counts)
            gradients = torch.autograd.grad(loss.sum(), list(weights.values()))
        with torch.no_grad():
            layout.join(dict(zip(weights, gradients, strict=True)), self.gradient)
            norm = self.gradient.norm(dim=1, keepdim=True)
            finite = torch.isfinite(norm)
            scale = (c.clip / (norm + 1e-6)).clamp(max=1)
            self.gradient.mul_(scale).masked_fill_(~finite, 0)
            self.bad.add_((~finite[:, 0]).float())
            self.online.grad = self.gradient
            self.optimiser.step()
            self.frozen.lerp_(self.online.detach(), self.mix)
            if self.steady is not None:
                self.steady.lerp_(self.online.detach(), self.renewed)
            self.loss.copy_(loss.detach())
            self.value.copy_(value)
            if priorities is not None:
                priorities.learnt(learnt, off)

    def reset(self) -> None:
        """Last layers anew, the others drawn towards fresh ones; Adam begins anew with all of them.

        Moments of nothing are only made up for in Adam's first steps: had it counted on, what is fresh would leap.
        """
        keep = self.config.shrink * (1 - self._last)
        fresh = self._fresh().to(self.frozen.device)
        with torch.no_grad():
            for flat in (self.online, self.frozen):
                flat.mul_(keep).add_(fresh * (1 - keep))
            for slot in self.optimiser.state[self.online].values():
                slot.zero_()
            if self.steady is not None:
                self.steady.copy_(self.online)
        self.since = 0

    def _fresh(self) -> Float[Tensor, "a p"]:
        """Weights that depend on an agent's seed and the update alone, not on who learns beside it."""
        draws = (torch.Generator().manual_seed(seed * FRESH + self.done) for seed in self.seeds)
        return torch.stack([self.network.layout.fresh(generator) for generator in draws])

    # State

    def _tensors(self) -> dict[str, Tensor]:
        moments = self.optimiser.state[self.online]
        worth = self.priorities.tensors() if self.priorities else {}
        steady = {"steady": self.steady} if self.steady is not None else {}
        adam = {f"adam.{slot}": t for slot, t in moments.items()}
        return {"frozen": self.frozen, "bad": self.bad, **adam, **steady, **worth}

    def tensors(self) -> dict[str, Tensor]:
        return {"online": self.online.detach(), "playing": self.playing, **self._tensors()}

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], done: int, since: int) -> None:
        """In place: a captured update goes on with the same memory."""
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])
        self.done, self.since = done, since

    @property
    def acting(self) -> Float[Tensor, "a p"]:
        """The weights that are played with while it learns."""
        return self.frozen if self.config.act_with_target else self.online.detach()

    @property
    def kept(self) -> Float[Tensor, "a p"]:
        """The weights that are kept in the end: those that play may be a moment's whim, a mean of many more is none."""
        return self.acting if self.steady is None else self.steady

    def hand_over(self) -> None:
        """Let those who play have what was learnt so far; they keep it while the next update is made."""
        self.playing.copy_(self.acting)
