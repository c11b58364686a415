"""Optimizers and schedules as text: what is read, what is written, and what is refused in a line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpladder.config.spelling import read, write
from warpladder.errors import ConfigError
from warpladder.optimizers import SGD, Adam, AdamW, Optimizer
from warpladder.optimizers.schedules import Constant, Cosine, Schedule, StepDecay

OTHER: dict[type, Optimizer | Schedule] = {Optimizer: SGD(0.5, momentum=0.9), Schedule: Constant()}


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        (Optimizer, "adam", Adam()),
        (Optimizer, "Adam:betas=0.9+0.99:eps=1e-7", Adam(betas=(0.9, 0.99), eps=1e-7)),
        (Optimizer, "ADAMW:learning-rate=1e-4:weight_decay=0.1", AdamW(1e-4, weight_decay=0.1)),
        (Optimizer, "sgd", SGD(0.5, momentum=0.9)),
        (Optimizer, "sgd:nesterov=yes", SGD(0.5, momentum=0.9, nesterov=True)),
        (Optimizer, "sgd:momentum=0:learning_rate=2", SGD(2.0)),
        (Schedule, "constant:warmup=2", Constant(warmup=2)),
        (Schedule, "step", StepDecay()),
        (Schedule, "step:every=5:gamma=0.5", StepDecay(every=5, gamma=0.5)),
        (Schedule, "StepDecay:warmup=1", StepDecay(warmup=1)),
        (Schedule, " cosine:warmup=1:least=1e-5 ", Cosine(warmup=1, least=1e-5)),
        (Schedule, "cosine:epochs=none", Cosine()),
    ],
)
def test_what_a_text_means(kind, text, wanted):
    assert read(kind, text, OTHER[kind]) == wanted


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (
            Optimizer,
            "adm",
            "there is no optimizer 'adm': did you mean 'adam' or 'adamw'? there are adam, adamw, rmsprop, sgd",
        ),
        (Optimizer, "", "there is no optimizer '': there are adam, adamw, rmsprop, sgd"),
        (Optimizer, "optimizer", "there is no optimizer 'optimizer': there are"),
        (Optimizer, "adam:beta1=0.9", "Adam has no beta1; it has learning_rate, betas, eps, weight_decay"),
        (Optimizer, "adam:momentum=0.9", "Adam has no momentum; it has"),
        (Optimizer, "sgd:betas=0.9+0.99", "SGD has no betas; it has learning_rate, momentum, nesterov, weight_decay"),
        (
            Optimizer,
            "adam:eps",
            "settings of the optimizer are written as in 'adam:betas=0.9+0.99:eps=1e-7', got 'eps'",
        ),
        (Optimizer, "adam:eps=", "settings of the optimizer are written as in"),
        (Optimizer, "adam:eps=1:eps=2", "eps of the optimizer is given twice"),
        (Optimizer, "adam:eps=0", "eps wants at least 1e-30, got 0"),
        (Optimizer, "adam:eps=tiny", "eps wants a finite number of at least 0, got 'tiny'"),
        (Optimizer, "adam:betas=0.9", "betas wants two numbers from 0 to below 1, as (0.9, 0.999), got 0.9"),
        (Optimizer, "adam:betas=0.9+0.99+0.999", "betas wants two numbers"),
        (Optimizer, "adam:betas=a+b", "betas wants two numbers from 0 to below 1, as (0.9, 0.999), got 'a+b'"),
        (Optimizer, "sgd:nesterov=1", "nesterov wants True or False, got 1.0"),
        (Optimizer, "adam:learning_rate=nan", "learning_rate wants a finite number"),
        (Schedule, "cosin", "there is no schedule 'cosin': did you mean 'cosine'"),
        (Schedule, "plateau", "there is no schedule 'plateau': there are constant, cosine, onecycle, stepdecay"),
        (Schedule, "cosine:gamma=1", "Cosine has no gamma; it has warmup, least, epochs"),
        (
            Schedule,
            "step:every",
            "settings of the schedule are written as in 'cosine:warmup=1:least=1e-5', got 'every'",
        ),
        (Schedule, "step:every=0", "every wants a number of epochs above 0"),
        (Schedule, "cosine:warmup=-1", "warmup wants a finite number of at least 0, got -1.0"),
    ],
)
def test_what_no_text_means(kind, text, words):
    with pytest.raises(ConfigError) as caught:
        read(kind, text, OTHER[kind])
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_setting_stands_in_one_place():
    assert read(Optimizer, "adam:eps=1e-6", SGD(), {"learning_rate": 0.01}) == Adam(0.01, eps=1e-6)
    with pytest.raises(ConfigError, match="learning_rate of the optimizer is given twice"):
        read(Optimizer, "adam:learning_rate=1", SGD(), {"learning_rate": 0.01})


numbers = st.floats(0, 1e6)
shares = st.floats(0, 1, exclude_max=True)
things = st.one_of(
    st.builds(SGD, numbers, momentum=shares.filter(bool), nesterov=st.booleans(), weight_decay=numbers),
    st.builds(Adam, numbers, betas=st.tuples(shares, shares), eps=st.floats(1e-30, 1), weight_decay=numbers),
    st.builds(AdamW, numbers, betas=st.tuples(shares, shares)),
    st.builds(Constant, warmup=numbers),
    st.builds(StepDecay, every=numbers.filter(bool), gamma=numbers, warmup=numbers),
    st.builds(Cosine, warmup=numbers, least=numbers, epochs=st.none() | numbers),
)


@given(things)
def test_what_is_written_is_read(thing):
    kind: Any = Optimizer if isinstance(thing, Optimizer) else Schedule
    other = (
        Adam()
        if isinstance(thing, SGD)
        else SGD()
        if kind is Optimizer
        else Cosine()
        if isinstance(thing, Constant)
        else Constant()
    )
    assert read(kind, write(thing), other) == thing
