"""Accuracy and R2 on made-up tables: warpladder's defaults next to pipelines of scikit-learn, on the same rows.

    python benchmarks/tables.py --seeds 5 --out benchmarks/tables.json

Each seed draws another table and another fifth of its rows to test with. warpladder's nets are `wl.train("mlp", data)`,
and train on nine tenths of the other rows, since a tenth validates. "pipeline" is MLPClassifier or MLPRegressor with
one hidden layer of 256, 20 epochs and batches of 32, "defaults" the same class with its defaults.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import warpladder as wl

Random = np.random.Generator


def with_gaps(frame: pd.DataFrame, random: Random, **shares: float) -> pd.DataFrame:
    """Frame with a share of a column's cells missing."""
    for name, share in shares.items():
        frame.loc[random.random(len(frame)) < share, name] = np.nan
    return frame


def bank(random: Random) -> pd.DataFrame:
    """800 rows with text, gaps and a rare class."""
    n = 800
    age, balance, called = random.integers(18, 80, n) * 1.0, random.lognormal(7, 1.2, n), random.gamma(2, 120, n)
    job = random.choice(["admin", "blue collar", "student", "retired", "self employed", "services"], n)
    city = random.choice(["Bern", "Basel", "Geneva", "Chur"], n, p=[0.4, 0.3, 0.25, 0.05])
    logit = 0.03 * (age - 45) + 0.5 * (np.log(balance) - 7) + 0.008 * (called - 240) + random.normal(0, 1.1, n)
    logit += np.select([job == "student", job == "blue collar"], [1.2, -0.8], 0)
    y = np.where(logit > 1, "yes", "no").astype(object)
    y[(random.random(n) < 0.03) & (called > 300)] = "maybe"
    columns = {"age": age, "balance": balance, "job": job, "city": city, "called": called, "y": y}
    return with_gaps(pd.DataFrame(columns), random, age=0.06, balance=0.1, job=0.08)


def houses(random: Random) -> pd.DataFrame:
    """1,000 rows with prices that have a long tail."""
    n = 1000
    area, year, distance = random.gamma(5, 25, n), random.integers(1900, 2024, n) * 1.0, random.exponential(6, n)
    rooms = np.clip((area / 28 + random.normal(0, 1, n)).round(), 1, 9)
    side = random.choice(["north", "south", "east", "west"], n)
    log = 11.2 + 0.008 * area + 0.05 * rooms + 0.002 * (year - 1960) - 0.05 * distance + random.normal(0, 0.25, n)
    log += np.select([side == "south", side == "west"], [0.25, -0.15], 0)
    columns = {"area": area, "rooms": rooms, "year": year, "distance": distance, "side": side, "target": np.exp(log)}
    return with_gaps(pd.DataFrame(columns), random, year=0.05)


def cover(random: Random) -> pd.DataFrame:
    """6,000 rows of 54 columns, 44 of them 0 or 1, and seven noisy classes."""
    n, same = 6000, np.random.default_rng(7)
    soil = np.eye(40)[random.choice(40, n, p=random.dirichlet(np.ones(40)))]
    x = np.hstack([random.normal(0, 1, (n, 10)), np.eye(4)[random.integers(0, 4, n)], soil])
    first, second = same.normal(0, 0.6, (54, 20)), same.normal(0, 1, (20, 7))
    logits = np.tanh(x @ first) @ second * 1.5 + [2, 2.3, 0, -2, -1, 0, 0]
    y = (logits + random.gumbel(0, 0.6, logits.shape)).argmax(1) + 1
    return pd.DataFrame(x, columns=[f"c{at}" for at in range(54)]).assign(y=y)


def categories(random: Random) -> pd.DataFrame:
    """400 rows with two columns of 60 and 25 texts."""
    n, same = 400, np.random.default_rng(3)
    product, shop, u = random.integers(0, 60, n), random.integers(0, 25, n), random.normal(0, 1, n)
    logit = same.normal(0, 1, 60)[product] + same.normal(0, 1, 25)[shop] + u + random.normal(0, 0.5, n)
    columns = {"product": [f"p{at}" for at in product], "shop": [f"s{at}" for at in shop], "u": u}
    return pd.DataFrame(columns | {"y": np.where(logit > 0, "sold", "kept")})


def three(random: Random) -> pd.DataFrame:
    """1,500 rows of three columns in other units, and targets below and above 0."""
    x = random.uniform(-2, 2, (1500, 3))
    target = 3 * np.sin(2 * x[:, 0]) - 2 * x[:, 1] * x[:, 2] - 1 + random.normal(0, 0.5, 1500)
    return pd.DataFrame({"a": x[:, 0], "b": 100 * x[:, 1], "c": x[:, 2] / 1000, "target": target})


def noise(random: Random) -> pd.DataFrame:
    """2,000 rows of 500 columns, of which five tell the label."""
    x = random.normal(0, 1, (2000, 500))
    y = x[:, :5].sum(1) + random.normal(0, 0.5, 2000) > 0
    return pd.DataFrame(x, columns=[f"f{at}" for at in range(500)]).assign(y=y)


def fraud(random: Random) -> pd.DataFrame:
    """5,000 rows of eight columns, three in a hundred of them of the second class."""
    x = random.normal(0, 1, (5000, 8))
    logit = 1.5 * x[:, 0] + x[:, 1] * x[:, 2] + random.normal(0, 0.7, 5000)
    return pd.DataFrame(x, columns=list("abcdefgh")).assign(y=(logit > np.quantile(logit, 0.97)).astype(int))


TABLES: tuple[Callable[[Random], pd.DataFrame], ...] = (bank, houses, cover, categories, three, noise, fraud)
SAME = {"hidden_layer_sizes": (256,), "max_iter": 20, "batch_size": 32}


def pipeline(is_label: bool, seed: int, **settings: object) -> object:
    """Pipeline of scikit-learn for a table with text and gaps."""
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    encode = ColumnTransformer([
        ("numbers", numbers, make_column_selector(dtype_include="number")),
        ("texts", OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude="number")),
    ])  # fmt: skip
    if is_label:
        return make_pipeline(encode, MLPClassifier(random_state=seed, **settings))
    model = TransformedTargetRegressor(MLPRegressor(random_state=seed, **settings), transformer=StandardScaler())
    return make_pipeline(encode, model)


def scores(frame: pd.DataFrame, seed: int) -> dict[str, float]:
    """Accuracy or R2 of each program on a fifth of the rows."""
    learnt, is_label = frame.columns[-1], frame.columns[-1] == "y"
    train, test = train_test_split(frame, test_size=0.2, random_state=seed, stratify=frame.y if is_label else None)
    found = {}
    for name, settings in (("pipeline", SAME), ("defaults", {})):
        model = pipeline(is_label, seed, **settings).fit(train.drop(columns=learnt), train[learnt])
        found[name] = model.score(test.drop(columns=learnt), test[learnt])
    names = {"label" if is_label else "target": learnt}
    data = wl.data.table(train.reset_index(drop=True), test=test.reset_index(drop=True), seed=seed, **names)
    run = wl.train("mlp", data, wl.config.FEATURES.but(seed=seed), progress=False)
    return {"warpladder": run.score(test)} | {name: float(value) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, dict[str, list[float]]] = {}
    for make in TABLES:
        runs = [scores(make(np.random.default_rng(seed)), seed) for seed in range(options.seeds)]
        found = {name: [round(run[name], 4) for run in runs] for name in runs[0]}
        results[make.__name__] = found
        words = [f"{name} {np.mean(each):.3f} ({np.std(each, ddof=1):.3f})" for name, each in found.items()]
        print(make.__name__, make.__doc__, *words, sep="  ", flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
