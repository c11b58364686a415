"""Early stopping: when a run ends, whose weights it has, and that a resumed run repeats it bit for bit."""

import signal
from dataclasses import replace

import numpy as np
import pytest
from checkpoints import apart, together
from rungs_here import NAMES
from runs import AUTOENCODER, CNN, CONFIG, MLP, data, facts, hooked

import warpladder as wl
from warpladder.checkpoint import best_epoch, decode, encode, is_over
from warpladder.errors import CheckpointError, ConfigError, Stopped
from warpladder.train import epochs, scoring, train
from warpladder.train.epochs import TrainingLoop

NOISE = data()
#: Rates so large that the validation loss rises again.
LONG = CONFIG.but(epochs=12, learning_rate=0.3, log_every=None)


def same(arrays, others):
    return all((arrays[name] == others[name]).all() for name in arrays) and arrays.keys() == others.keys()


def end_by_hand(losses, patience):
    """Number of epochs trained, and the best of them, from the validation losses of all epochs."""
    best, waited = 0, 0
    for epoch, loss in enumerate(losses, 1):
        waited += 1
        if epoch == 1 or loss < losses[best - 1]:
            best, waited = epoch, 0
        if waited == patience:
            break
    return epoch, best


@pytest.mark.parametrize("rung", NAMES)
def test_a_run_ends_after_that_many_epochs_without_a_lower_loss_and_has_the_best_weights(rung):
    whole = train(MLP, NOISE, LONG, rung=rung)
    losses = [log.valid_loss for log in whole.history]
    ends = {patience: end_by_hand(losses, patience) for patience in (1, 2, 3, 12)}
    assert ends[1][0] < LONG.epochs and ends[12][1] < LONG.epochs, "this run shows nothing"
    for patience, (last, best) in ends.items():
        run = train(MLP, NOISE, LONG.but(early_stopping=patience), rung=rung)
        assert (len(run.history), run.best_epoch) == (last, best)
        assert [log.valid_loss for log in run.history] == losses[:last]
        short = train(MLP, NOISE, LONG.but(epochs=best), rung=rung)
        assert same(run.params, short.params) and run.test_loss == short.test_loss
        assert same(run.checkpoint.last, train(MLP, NOISE, LONG.but(epochs=last), rung=rung).params)
        assert f"{last} of 12 epochs, the best of them epoch {best}" in repr(run)


@pytest.mark.parametrize("net", [CNN, AUTOENCODER], ids=lambda net: net.name)
@pytest.mark.parametrize("rung", ["numpy", "numpy:precision=fp64"])
def test_nets_of_other_kinds_end_alike(net, rung):
    config = LONG.but(learning_rate=0.05)
    losses = [log.valid_loss for log in train(net, NOISE, config, rung=rung).history]
    run = train(net, NOISE, config.but(early_stopping=2), rung=rung)
    assert (len(run.history), run.best_epoch) == end_by_hand(losses, 2)
    again = decode(encode(run.checkpoint))
    assert facts(again) == facts(run.checkpoint) and again.element == run.checkpoint.element


def places(run, monkeypatch, tmp_path, config):
    """Checkpoints of a run stopped by a signal: within epochs, while samples are validated, while they are tested."""
    real = scoring.part_score
    for what, stop in (("step", (1, 3)), ("step", (3, 5)), ("valid", 2), ("valid", 4), ("test", 1)):
        seen = {"valid": 0, "test": 0}

        def before(trainer, order, first, last, what=what, stop=stop):
            if what == "step" and (order.epoch, first) == stop:
                signal.raise_signal(signal.SIGINT)

        def score(trainer, dataset, part, between, what=what, stop=stop, seen=seen):
            seen[part] += 1
            if part == what and seen[part] == stop:
                signal.raise_signal(signal.SIGINT)
            return real(trainer, dataset, part, between=between)

        path = tmp_path / f"{what}{stop}.safetensors"
        with monkeypatch.context() as patched:
            patched.setattr(epochs, "part_score", score)
            with pytest.raises(Stopped):
                train(MLP, NOISE, config, rung=hooked("numpy", before=before), checkpoint=path)
        yield path


def test_a_resumed_run_ends_in_the_same_bits_wherever_it_was_stopped(monkeypatch, tmp_path):
    config = LONG.but(early_stopping=3, log_every=1)
    whole = train(MLP, NOISE, config, rung="numpy")
    assert 5 < len(whole.history) < 12 and best_epoch(whole.history) != len(whole.history)
    found = list(places(whole, monkeypatch, tmp_path, config))
    for path in found:
        assert not wl.load(path).checkpoint.finished
        resumed = train(MLP, NOISE, resume=path, checkpoint=path)
        assert facts(resumed.checkpoint) == facts(whole.checkpoint) == facts(wl.load(path).checkpoint)
    assert len(found) == 5


def test_a_run_that_ended_goes_on_where_more_patience_or_epochs_leave_something_to_do(tmp_path):
    path, config = tmp_path / "r.safetensors", LONG.but(early_stopping=1)
    run = train(MLP, NOISE, config, rung="numpy", checkpoint=path)
    assert len(run.history) < 12
    for changes in ({}, {"epochs": 20}):  # its patience is used up all the same
        assert facts(train(MLP, NOISE, config.but(**changes), resume=path).checkpoint) == facts(run.checkpoint)
    more = train(MLP, NOISE, config.but(early_stopping=4), resume=path)
    assert facts(more.checkpoint) == facts(train(MLP, NOISE, config.but(early_stopping=4), rung="numpy").checkpoint)
    # a run that was over by its epochs
    config = LONG.but(epochs=2, early_stopping=11)
    train(MLP, NOISE, config, rung="numpy", checkpoint=path, overwrite=True)
    more, whole = (
        train(MLP, NOISE, config.but(epochs=12), rung=None if resume else "numpy", resume=resume)
        for resume in (path, None)
    )
    assert facts(more.checkpoint) == facts(whole.checkpoint)
    with pytest.raises(CheckpointError, match="early_stopping is 11 there and None here"):
        train(MLP, NOISE, config.but(early_stopping=None), resume=path)


def test_other_programs_read_the_best_weights_under_their_plain_names(tmp_path):
    from safetensors.numpy import load_file, save_file

    run = train(MLP, NOISE, LONG.but(early_stopping=2), rung="numpy")
    run.save(tmp_path / "r.safetensors")
    tensors = load_file(tmp_path / "r.safetensors")
    assert same(run.params, {name: tensors[name] for name in run.params})
    assert same(run.checkpoint.last, {name: tensors[f"last.{name}"] for name in run.params})
    save_file(tensors, tmp_path / "again.safetensors")  # without the description of the run
    for path in ("r.safetensors", "again.safetensors"):
        begun = train(MLP, NOISE, LONG.but(epochs=0), weights=tmp_path / path)
        assert same(begun.params, run.params)
    assert (wl.load(tmp_path / "r.safetensors").predict(NOISE.test_x) == run.predict(NOISE.test_x)).all()
    with pytest.raises(ConfigError, match=f"weights are those of epoch {run.best_epoch}, and the optimizer's state"):
        run.optimizer_state_dict()


def test_files_that_lack_the_best_or_last_epoch_are_damaged(tmp_path):
    run = train(MLP, NOISE, LONG.but(early_stopping=2), rung="numpy", checkpoint=tmp_path / "r", keep_epochs=True)
    for checkpoint, kind in ((run.checkpoint, "last"), (wl.load(tmp_path / "r-epoch-002").checkpoint, "best")):
        document, tensors = apart(encode(checkpoint))
        without = {name: array for name, array in tensors.items() if not name.startswith(kind)}
        with pytest.raises(CheckpointError, match=f"lacks the parameters of its {kind} epoch"):
            decode(together(document, without))
        some = {name: array for name, array in tensors.items() if name != f"{kind}.1.bias"}
        with pytest.raises(CheckpointError, match=f"holds {kind} '1.weight, 3.bias, 3.weight'"):
            decode(together(document, some))
        other = {("best." if kind == "last" else "last.") + name: array for name, array in run.params.items()}
        with pytest.raises(CheckpointError, match="holds the parameters of its"):
            decode(together(document, tensors | other))
        logs = [{**log, "valid_loss": None} for log in document["history"]]
        with pytest.raises(CheckpointError, match="logs epochs without a validation loss"):
            decode(together({**document, "history": logs}, tensors))


def test_it_needs_a_validation_part_and_a_training():
    without = replace(NOISE, valid_x=None, valid_y=None)
    with pytest.raises(ConfigError, match=r"noise has none: split 5 samples off, as --validation 5, in Python valid"):
        train(MLP, without, CONFIG.but(early_stopping=2))
    with pytest.raises(ConfigError, match="a climb times whole epochs, leave it out"):
        wl.climb(MLP, NOISE, CONFIG.but(early_stopping=2), ["numpy"])
    for value in (0, -1, 2.0, True, "5"):
        with pytest.raises(ConfigError, match="early_stopping wants a whole number of at least 1"):
            CONFIG.but(early_stopping=value)
    assert "early_stopping" not in CONFIG.as_dict()
    assert wl.TrainConfig.from_dict(CONFIG.but(early_stopping=2).as_dict()).early_stopping == 2


@pytest.mark.parametrize(("valid", "answer"), [(11, True), (0, np.True_), (0, wl.StopTraining)])
def test_a_callback_ends_the_run_with_its_epoch_as_if_it_had_been_the_last(answer, valid, tmp_path, monkeypatch):
    """Without a validation part many epochs are trained in one call: the run goes back to that epoch."""
    few, calls = data(samples=9, valid=11), []
    few = few if valid else replace(few, valid_x=None, valid_y=None)
    config = LONG.but(epochs=60, batch_size=None)
    counts, together_before = [], TrainingLoop._train_epochs
    monkeypatch.setattr(epochs, "CALL_SECONDS", 1000.0)

    def counted(loop, count):
        counts.append(count)
        together_before(loop, count)

    monkeypatch.setattr(TrainingLoop, "_train_epochs", counted)

    def stop(log):
        calls.append(log.epoch)
        if log.epoch == 40:
            if answer is wl.StopTraining:
                raise wl.StopTraining
            return answer
        return 1.0  # truth is no request

    path = tmp_path / "s.safetensors"
    run = train(MLP, few, config, rung="numpy", each_epoch=stop, checkpoint=path, checkpoint_seconds=1000.0)
    assert max(counts, default=1) > 20 or valid
    whole = train(MLP, few, config.but(epochs=40), rung="numpy")
    assert calls == list(range(1, 41)) and facts(run.checkpoint) == facts(whole.checkpoint)
    assert facts(wl.load(path).checkpoint) == facts(run.checkpoint)
    assert facts(train(MLP, few, resume=path).checkpoint) == facts(train(MLP, few, config, rung="numpy").checkpoint)


def test_a_callback_and_early_stopping_together_give_the_best_weights():
    config = LONG.but(early_stopping=11)
    run = train(MLP, NOISE, config, rung="numpy", each_epoch=lambda log: log.epoch == 11)
    losses = [log.valid_loss or 0.0 for log in run.history]
    best = losses.index(min(losses)) + 1
    assert len(losses) == 11 and run.best_epoch == best < 11
    assert same(run.params, train(MLP, NOISE, LONG.but(epochs=best), rung="numpy").params)
    assert not is_over(config, run.history)


def test_the_command_line_ends_early_and_states_whose_weights_they_are(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = ("train", "mlp10", "--data", "digits", "--limit", "80", "--validation", "40", "--epochs", "40", "--lr", "2")
    code, out, _ = run(*words, "--early-stopping", "2", "--checkpoint", "c.safetensors")
    found = wl.load("c.safetensors")
    last, best = len(found.history), found.best_epoch or 0
    assert code == 0 and last - best == 2 and last < 40
    ended = f"Ended after epoch {last} of 40, 2 epochs without a lower validation loss; the weights are those of epoch"
    assert f"{ended} {best}" in out
    code, _, err = run(*words[:6], "--early-stopping", "2", "--no-checkpoint")
    assert code == 2 and "needs a validation part, and digits has none: split 8 samples off" in err
    code, _, err = run("climb", "mlp10", "--data", "digits", "--rungs", "numpy", "--sweep", "early_stopping=1,2")
    assert code == 2 and "none of these rungs has an option 'early_stopping'" in err
