"""Returns to learn values from: pure functions of what happened and of what was thought of it.

Time is the first axis. Row t holds what followed the action taken at t: reward r_t, discount γ_t (0 where the episode
ended there) and value v_{t+1}, the worth of the state that came next.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def n_step_returns(
    rewards: Float[Tensor, "t *b"],
    discounts: Float[Tensor, "t *b"],
    values: Float[Tensor, "t *b"],
    steps: int | Tensor,
    going_on: Bool[Tensor, "t *b"] | None = None,
    most: int | None = None,
) -> Float[Tensor, "t *b"]:
    """G_t = r_t + γ_t r_{t+1} + … + γ_t…γ_{t+n-1} v_{t+n}, with fewer steps where fewer are known.

    `going_on` is False at a row that holds no transition: returns before it end with the value of its state. `steps`
    may be a tensor, so that a captured update sees it change; `most` then says how far it can rise.
    """
    most = most or int(steps)
    # Each state is worth its value, or what was found there with one step less: few kernels, for they add up.
    goes_on = torch.ones_like(rewards, dtype=torch.bool) if going_on is None else going_on
    known = torch.cat((goes_on[1:], torch.zeros_like(goes_on[:1])))
    more = torch.arange(most, device=rewards.device) < steps
    result = torch.addcmul(rewards, discounts, values)
    for lag in range(1, min(most, len(rewards))):
        worth = torch.where(known, result.roll(-1, 0), values)
        result = torch.where(more[lag], torch.addcmul(rewards, discounts, worth), result)
    return result


def q_lambda_returns(
    rewards: Float[Tensor, "t *b"],
    discounts: Float[Tensor, "t *b"],
    values: Float[Tensor, "t *b"],
    traces: Float[Tensor, "t *b"] | float,
) -> Float[Tensor, "t *b"]:
    """G_t = r_t + γ_t [(1 - λ_t) v_{t+1} + λ_t G_{t+1}], where v = max Q; the last row has its value alone.

    A constant λ is Peng's Q(λ); `watkins_traces` makes λ_t for Watkins's.
    """
    traces = torch.as_tensor(traces, dtype=rewards.dtype, device=rewards.device).expand_as(rewards)
    later, results = values[-1], []
    for t in reversed(range(len(rewards))):
        later = rewards[t] + discounts[t] * ((1 - traces[t]) * values[t] + traces[t] * later)
        results.append(later)
    return torch.stack(results[::-1])


def watkins_traces(trace: float, greedy: Bool[Tensor, "t *b"]) -> Float[Tensor, "t *b"]:
    """λ where the next action was greedy and 0 where it was not: greedy_t says it of the action taken at t."""
    following = torch.cat((greedy[1:], torch.zeros_like(greedy[:1])))
    return trace * following.float()


EPSILON = 1e-3  # R2D2's (Kapturowski et al. 2019), as in Pohlen et al. 2018


def rescale(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """h(x) = sign(x)(√(|x| + 1) - 1) + εx: large values come closer, small ones stay."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + epsilon * x


def unscale(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """h⁻¹(x)."""
    root = (1 + 4 * epsilon * (x.abs() + 1 + epsilon)).sqrt()
    return x.sign() * (((root - 1) / (2 * epsilon)).square() - 1)
