"""The Q-network of KeyQN, for many agents at once: inputs, a layer, an LSTM beside it, a layer, dueling heads."""

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from transporter.control.keyqn.config import NetworkConfig
from transporter.control.keyqn.weights import Layout, Weight, Weights, apply_linear, apply_norm, linear, norm
from transporter.control.lstm import Step, forget_gates, one_step, unroll
from transporter.control.replay import Before, Memory
from transporter.coords import cell_centres

NEVER = -1e9  # the worth of an action that a game does not have


class Inputs(Protocol):
    """From stored rows to what the first layer sees; an observer brings its own."""

    width: int
    places: int  # pairs of coordinates in a row
    weights: dict[str, Weight]

    def read(self, rows: Tensor, earlier: Tensor) -> Tensor:
        """(a, n, *row) each, to something that is the same whatever the weights."""
        ...

    def shifted(self, rows: Tensor, by: Float[Tensor, "a #t b places 2"]) -> Tensor:
        """(a, t, b, *row) with every place elsewhere by so much."""
        ...

    def __call__(self, weights: Weights, read: Tensor) -> Float[Tensor, "a n width"]: ...


class Thought(NamedTuple):
    """What a network makes of a window."""

    q: Float[Tensor, "a t b actions"]  # of the rows that were not skipped: the mean of all opinions
    least: Float[Tensor, "a t b actions"]  # the lowest of them
    scores: Float[Tensor, "o a t b actions bins"]  # the histograms that each opinion is the mean of
    memory: Memory  # after the last row


class QNetwork:
    """Shapes and arithmetic; the weights are given with every call."""

    def __init__(
        self, config: NetworkConfig, inputs: Inputs, legal: Bool[Tensor, "a actions"], step: Step = one_step
    ) -> None:
        self.config, self.inputs, self.legal, self.step = config, inputs, legal, step
        self.actions = legal.shape[1]
        self._names = torch.arange(self.actions, device=legal.device)
        hidden, memory = config.hidden, config.memory
        self._forget = torch.zeros(4 * memory, device=legal.device)
        self._forget[forget_gates(memory)] = config.forget
        self.layout = Layout(
            {
                **inputs.weights,
                **linear("see", inputs.width, hidden),
                **norm("see", hidden),
                **linear("gates", hidden + self.actions + 1, 4 * memory),
                "recall.weight": Weight((memory, 4 * memory), inputs=memory),
                **{name: weight for opinion in self._opinions() for name, weight in self._last(opinion).items()},
            }
        )

    def _opinions(self) -> list[str]:
        """How the names of their weights end; one alone has the plain names."""
        return ["", *(f"_{i}" for i in range(2, self.config.opinions + 1))]

    def _last(self, opinion: str) -> dict[str, Weight]:
        """The last layers, which judge what was seen and recalled."""
        hidden, bins = self.config.hidden, max(1, self.config.bins)
        return {
            **linear(f"judge{opinion}", hidden + self.config.memory, hidden, last=True),
            **norm(f"judge{opinion}", hidden, last=True),
            **linear(f"advantage{opinion}", hidden, self.actions * bins, last=True),
            **(linear(f"value{opinion}", hidden, bins, last=True) if self.config.dueling else {}),
        }

    def nothing(self, count: int) -> Memory:
        """The memory of `count` sequences of each agent before their first row."""
        zeros = torch.zeros(len(self.legal), count, self.config.memory, device=self.legal.device)
        return Memory(zeros, zeros.clone())

    def read(self, rows: Tensor, earlier: Tensor) -> Tensor:
        """(a, t, b, *row) each: once for all networks that look at them."""
        return self.inputs.read(rows.flatten(1, 2), earlier.flatten(1, 2))

    def __call__(self, weights: Weights, read: Tensor, before: Before, memory: Memory, skip: int = 0) -> Thought:
        """before: (a, t, b); memory: (a, b, m). The first `skip` rows only bring the memory up to date."""
        a, t, b = before.first.shape
        x = self.inputs(weights, read)
        x = F.relu(apply_norm(weights, "see", apply_linear(weights, "see", x)))
        known = (~before.first).to(x.dtype)[..., None]
        past = torch.cat((before.action[..., None] == self._names, before.reward[..., None]), -1) * known
        z = apply_linear(weights, "gates", torch.cat((x, past.flatten(1, 2)), -1)).view(a, t, b, -1)
        if self.config.forget:
            z = z + self._forget
        recalled, memory = unroll(z, weights["recall.weight"], memory, before.first, skip, self.step)
        y = torch.cat((x[:, skip * b :], recalled.flatten(1, 2)), -1)
        scores = torch.stack([self._judge(weights, opinion, y, (a, t - skip, b)) for opinion in self._opinions()])
        q = expected(scores, self.config.limit).masked_fill(~self.legal[:, None, None], NEVER)
        return Thought(q.mean(0), q.amin(0), scores, memory)

    def _judge(self, weights: Weights, opinion: str, y: Tensor, shape: tuple[int, int, int]) -> Tensor:
        """One opinion: (a, n, hidden + memory) → (a, t, b, actions, bins)."""
        y = F.relu(apply_norm(weights, f"judge{opinion}", apply_linear(weights, f"judge{opinion}", y)))
        scores = apply_linear(weights, f"advantage{opinion}", y).view(*shape, self.actions, -1)
        if not self.config.dueling:
            return scores
        legal = self.legal[:, None, None, :, None].to(scores.dtype)
        mean = (scores * legal).sum(-2, keepdim=True) / legal.sum(-2, keepdim=True)
        return scores - mean + apply_linear(weights, f"value{opinion}", y).view(*shape, 1, -1)


def expected(scores: Float[Tensor, "*n bins"], limit: float) -> Float[Tensor, "*n"]:
    """The mean of a histogram over [-limit, limit] that is given by its logits; a single bin is the value itself."""
    bins = scores.shape[-1]
    return scores[..., 0] if bins == 1 else (scores.softmax(-1) * (limit * cell_centres(bins, scores.device))).sum(-1)
