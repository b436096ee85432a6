"""The claim `definition` of `diagonal_networks`: no condition of Definition 4.1 is refuted for any neuron."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...claims import Assumption, Kind, Verdict
from ...flows.diagonal_flow import checked_shape
from ...models import NeuronFunctions
from ...models.definition import Answer, Condition, DefinitionReport, check_definition, check_real
from ._diagonal_data import Instance
from ._diagonal_models import Network, function_network


@dataclasses.dataclass(frozen=True, eq=False)
class _Case:
    """One function with one way of starting, and the features that share both."""

    features: list[int]
    report: DefinitionReport


def definition(network: Network) -> Verdict | None:
    """The verdict on neurons that are functions; `None` for the other families, which are known to comply."""
    if not isinstance(network.neurons, NeuronFunctions):
        return None
    return _verdict(network.label, _cases(network.neurons, network.shape))


def definition_of(
    functions: Callable[[Any], Any] | Sequence[Callable[[Any], Any]], sizes: Any, shape: np.ndarray, made: Instance
) -> tuple[Verdict, Network | None]:
    """The verdict on neurons of the user's own, and the network they make; `None` where a witness refutes one."""
    _check_functions(functions, sizes)
    neurons = NeuronFunctions(functions, sizes)
    neurons.check_features(made.d)
    every = [functions] if callable(functions) else list(functions)
    widths = [sizes] if isinstance(sizes, int | np.integer) else list(sizes)
    for i in range(max(len(every), len(widths))):
        check_real(every[i % len(every)], int(widths[i % len(widths)]))
    start = checked_shape(neurons, made.d, shape)
    verdict = _verdict("functions", _cases(neurons, start))
    if verdict.measured > 0:
        return verdict, None
    return verdict, function_network("functions", functions, sizes, start)


def _check_functions(functions: Any, sizes: Any) -> None:
    """Raise `TypeError` unless `functions` is a function or a sequence of them, and `sizes` numbers alike."""
    if not isinstance(sizes, int | np.integer | Sequence | np.ndarray) or isinstance(sizes, str):
        raise TypeError(f"`sizes` must be a whole number, or a sequence of them, one a feature; got {sizes!r}.")
    if not callable(functions) and (not isinstance(functions, Sequence) or isinstance(functions, str)):
        raise TypeError(
            "`functions` must be a function of one JAX vector, or a sequence of them, one a feature; "
            f"got {functions!r}."
        )


def _cases(neurons: NeuronFunctions, shape: np.ndarray) -> list[_Case]:
    """One check for each function and each side of the extreme eigenvectors on which a start lies."""
    found: dict[Any, _Case] = {}
    for i, start in enumerate(shape):
        neuron = neurons.neuron(i)
        own = start[: neuron.m]
        hessian = neuron.tensors[2]
        vectors = np.linalg.eigh(hessian)[1][:, [0, -1]] if np.isfinite(hessian).all() else np.zeros((neuron.m, 2))
        parts = vectors.T @ own
        size = np.linalg.norm(own)
        # A start that is nearly orthogonal is a case of its own.
        sides = tuple(np.where(np.abs(parts) > 1e-12 * size, np.sign(parts), 0.0))
        key = (id(neuron), sides)
        if key in found:
            found[key].features.append(i)
        else:
            report = check_definition(neuron.function, neuron.m, start=own if size > 0 else None)
            found[key] = _Case([i], report if size > 0 else _at_zero(report, own))
    return list(found.values())


def _at_zero(report: DefinitionReport, start: np.ndarray) -> DefinitionReport:
    """The report on a neuron that starts at zero, and so never moves: its start is the witness."""
    name, text = "start orthogonal to neither", "the start is zero, where the gradient is zero: it never moves."
    failed = Condition(name=name, answer=Answer.FAIL, text=text, witness=start)
    return dataclasses.replace(report, conditions=tuple(failed if c.name == name else c for c in report.conditions))


def _verdict(label: str, cases: Sequence[_Case]) -> Verdict:
    names = list(dict.fromkeys(condition.name for case in cases for condition in case.report.conditions))
    failed, conditions, details = 0, [], []
    for name in names:
        answers = [(case, c) for case in cases for c in case.report.conditions if c.name == name]
        against = [(case, c) for case, c in answers if c.answer is Answer.FAIL]
        failed += bool(against)
        open_ones = any(c.answer is Answer.UNDECIDED for _, c in answers)
        case, shown = (against or answers)[0]
        conditions.append(
            Assumption(
                name=name,
                holds=False if against else (None if open_ones else True),
                measured=f"neuron {case.features[0] + 1}: {shown.text}",
            )
        )
        for case, c in answers:
            details.append(
                {
                    "condition": name,
                    "features": case.features,
                    "answer": str(c.answer),
                    "text": c.text,
                    "witness": None if c.witness is None else c.witness,
                }
            )
    return Verdict(
        claim="definition",
        parametrisation=label,
        loss="squared",
        kind=Kind.COUNT,
        measured=float(failed),
        bound=0.0,
        slack=0.0,
        unit="refuted conditions",
        # What no evaluation can settle stands beside the verdict: it says that nothing was refuted, and no more.
        assumptions=tuple(conditions),
        details={"conditions": details},
    )
