"""Interface of every cost model: a problem lists its plans, and estimates the cycles of each.

A model has to rank plans, not to predict times: trainers/tuning/tuner.py times the best ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

from ..engine.kernels import Launches, ceil_div

Plan = TypeVar("Plan", bound=Hashable)


class CostProblem(ABC, Generic[Plan]):
    """Cost problem: work of fixed size on a device. It is hashable: equal problems are ranked once."""

    @abstractmethod
    def plans(self) -> Iterable[Plan]:
        """Plans that the device can launch."""

    @abstractmethod
    def cycles(self, plan: Plan) -> float:
        """Estimated cycles of a plan, from the start of the first launch to the end of the last block."""

    def partials(self, plan: Plan) -> int:
        """Number of float32 split-K partials of the plan in scratch memory; 0 without split-K."""
        return 0


@lru_cache(maxsize=4096)
def ranked(problem: CostProblem[Plan]) -> dict[Plan, float]:
    """Cycles of each plan of a problem, the fastest first; equal plans stay in the order of `plans`."""
    cycles = {plan: problem.cycles(plan) for plan in problem.plans()}
    return dict(sorted(cycles.items(), key=lambda item: item[1]))


def best(problem: CostProblem[Plan]) -> Plan:
    """Plan with the least estimated cycles."""
    return next(iter(ranked(problem)))


def depths(steps: int, parts: Iterable[int], unit: int = 1) -> Iterator[int]:
    """Possible steps of each part of a sum of `steps`, multiples of `unit`, for about each number of `parts`."""
    return iter(dict.fromkeys(ceil_div(ceil_div(steps, count), unit) * unit for count in parts))


def batch_sizes(capacity: int) -> set[int]:
    """Batch sizes for which scratch memory is sized: powers of two below the capacity, and the capacity."""
    return {capacity, *(2**power for power in range(capacity.bit_length()) if 2**power < capacity)}


class Planner(Generic[Plan]):
    """Plan of one product for any number of samples: the best of the cost model, or a tuner's choice.

    problem : function from a number of samples to the cost problem. It must not refer to the op that owns the planner:
    a reference cycle holds device memory until the garbage collector runs.
    capacity : largest number of samples.
    partials : float32 numbers of split-K partials that scratch memory must hold. Plans that need more are left out.
    """

    def __init__(self, problem: Callable[[int], CostProblem[Plan]], capacity: int) -> None:
        self.problem = problem
        self.chosen: dict[int, Plan] = {}
        self.partials = 0
        self._reserve(map(problem, batch_sizes(capacity)))

    def _reserve(self, problems: Iterable[CostProblem[Plan]]) -> None:
        """Set `partials` so that the best plan of each problem fits."""
        self.partials = max(problem.partials(best(problem)) for problem in problems)

    def fits(self, problem: CostProblem[Plan], plan: Plan) -> bool:
        """True if scratch memory holds the partials of the plan."""
        return problem.partials(plan) <= self.partials

    def costs(self, n: int) -> dict[Plan, float]:
        """Estimated cycles of n samples by each plan that fits scratch memory, the fastest first."""
        problem = self.problem(n)
        return {plan: cycles for plan, cycles in ranked(problem).items() if self.fits(problem, plan)}

    def options(self, n: int) -> list[Plan]:
        """Plans for n samples that fit scratch memory, the fastest by the cost model first."""
        return list(self.costs(n))

    def use(self, n: int, plan: Plan) -> None:
        """Set the plan for n samples, one of `options(n)`, from now on."""
        self.chosen[n] = plan

    def mark(self, calls: Launches) -> Launches:
        """Assign the launches `calls` to this product, so that a tuner times them, and return them."""
        for call in calls:
            call.product = self
        return calls

    def __call__(self, n: int) -> Plan:
        if n not in self.chosen:
            problem = self.problem(n)
            self.chosen[n] = next(plan for plan in ranked(problem) if self.fits(problem, plan))
        return self.chosen[n]
