"""Interface of every cost model: a problem lists its plans, and estimates the cycles of each.

A model has to rank plans, not to predict times: trainers/tuning/tuner.py times the first of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from ..engine.kernels import Launches, ceil_div

Plan = TypeVar("Plan", bound=Hashable)


class CostProblem(ABC, Generic[Plan]):
    """Work of fixed size on a device of fixed limits. It is hashable: equal problems are ranked once."""

    @abstractmethod
    def plans(self) -> Iterable[Plan]:
        """Every plan that the device can launch."""

    @abstractmethod
    def cycles(self, plan: Plan) -> float:
        """Estimated cycles from the start of the first launch to the end of the last block."""

    def partials(self, plan: Plan) -> int:
        """float32 numbers of split-K partials of the plan in scratch memory; 0 if sums are whole."""
        return 0


@lru_cache(maxsize=4096)
def ranked(problem: CostProblem[Plan]) -> dict[Plan, float]:
    """Plans of a problem with their cycles, the fastest first; of equals the one that is listed first."""
    cycles = {plan: problem.cycles(plan) for plan in problem.plans()}
    return dict(sorted(cycles.items(), key=lambda item: item[1]))


def best(problem: CostProblem[Plan]) -> Plan:
    """The fastest plan by the model."""
    return next(iter(ranked(problem)))


def depths(steps: int, parts: Iterable[int], unit: int = 1) -> Iterator[int]:
    """Steps of each part of a sum, multiples of `unit`, for a sum of `steps` in about so many parts."""
    return iter(dict.fromkeys(ceil_div(ceil_div(steps, count), unit) * unit for count in parts))


def batch_sizes(capacity: int) -> set[int]:
    """Numbers of samples for which scratch memory is sized: powers of two below the capacity, and the capacity."""
    return {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}


class Planner(Generic[Plan]):
    """Plan of one product for any number of samples: the first of the model, or the choice of a tuner.

    problem : the problem for a number of samples. It must not refer to the op that owns the planner: a reference cycle
    holds device memory until the garbage collector runs.
    capacity : most samples.
    partials : float32 numbers of split-K partials that scratch memory must hold. Plans that need more are left out.
    """

    def __init__(self, problem: Callable[[int], CostProblem[Plan]], capacity: int) -> None:
        self.problem = problem
        self.chosen: dict[int, Plan] = {}
        self.partials = 0
        self._reserve(map(problem, batch_sizes(capacity)))

    def _reserve(self, problems: Iterable[CostProblem[Plan]]) -> None:
        """Set `partials` so that the first plan of each problem fits."""
        self.partials = max(problem.partials(best(problem)) for problem in problems)

    def fits(self, problem: CostProblem[Plan], plan: Plan) -> bool:
        """True if scratch memory holds the partials of the plan."""
        return problem.partials(plan) <= self.partials

    def costs(self, n: int) -> dict[Plan, float]:
        """Estimated cycles of n samples with each plan that fits scratch memory, the fastest first."""
        problem = self.problem(n)
        return {plan: cycles for plan, cycles in ranked(problem).items() if self.fits(problem, plan)}

    def options(self, n: int) -> list[Plan]:
        """Plans for n samples that fit scratch memory, the fastest by the model first."""
        return list(self.costs(n))

    def use(self, n: int, plan: Plan) -> None:
        """Compute n samples by this plan, one of `options(n)`, from now on."""
        self.chosen[n] = plan

    def mark(self, calls: Launches) -> Launches:
        """Calls marked as this product's, so that a tuner times them."""
        for call in calls:
            call.product = self
        return calls

    def __call__(self, n: int) -> Plan:
        if n not in self.chosen:
            problem = self.problem(n)
            self.chosen[n] = next(plan for plan in ranked(problem) if self.fits(problem, plan))
        return self.chosen[n]
