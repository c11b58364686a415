"""A peer from outside of the package: PyTorch as its tutorials have it, a Sequential, autograd and an optimizer of
torch.optim.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from warpladder import CrossEntropyLoss, Flatten, Linear, ReLU
from warpladder.ladder import Rung, State, StepLog, Trainer
from warpladder.nets.params import views
from warpladder.optimizers import SGD

MODULES = (Flatten, Linear, ReLU)


class Tutorial(Trainer):
    def __init__(self, net, config, state):
        import torch

        self.net, self.config, self.torch = net, config, torch
        assert isinstance(config.optimizer, SGD)
        self.decay = config.optimizer.weight_decay
        inputs = [shape[0] for shape in net.shapes]
        known = {Flatten: lambda i: torch.nn.Flatten(), ReLU: lambda i: torch.nn.ReLU()}
        modules = [
            torch.nn.Linear(inputs[i], layer.out_features) if isinstance(layer, Linear) else known[type(layer)](i)
            for i, layer in enumerate(net.layers)
        ]
        self.model = torch.nn.Sequential(*modules)
        self.set_state(state)

    def load(self, dataset):
        self.x = self.torch.from_numpy(dataset.train_x.astype(np.float32) * np.float32(dataset.scale))
        self.y = self.torch.from_numpy(dataset.train_y.astype(np.int64))

    def run(self, order, first, last):
        torch, batch, log = self.torch, self.config.batch(order.n), []
        for step in range(first, last):
            rows = torch.from_numpy(order.indices(step * batch, min((step + 1) * batch, order.n)))
            self.optimizer.param_groups[0]["lr"] = float(self.config.rates(self.step, self.step + 1, order.n)[0])
            self.optimizer.zero_grad()
            output = self.model(self.x[rows])
            loss = torch.nn.functional.cross_entropy(output, self.y[rows])
            loss.backward()
            self.optimizer.step()
            self.step += 1
            log.append((loss.item(), (output.argmax(1) == self.y[rows]).sum().item(), len(rows)))
        losses, corrects, sizes = zip(*log, strict=True) if log else ((), (), ())
        return StepLog(np.array(losses, np.float64), np.array(corrects, np.int64), np.array(sizes, np.int64))

    def predict(self, x, scale):
        with self.torch.no_grad():
            return self.model(self.torch.from_numpy(x.astype(np.float32) * np.float32(scale))).numpy()

    def state(self):
        return State(np.concatenate([p.detach().numpy().ravel() for p in self.model.parameters()]), {}, self.step)

    def set_state(self, state):
        named, self.step = views(self.net, state.params.copy()), state.step
        self.model.load_state_dict({name: self.torch.from_numpy(array) for name, array in named.items()})
        self.optimizer = self.torch.optim.SGD(self.model.parameters(), weight_decay=self.decay)


def unsupported(net, config):
    if find_spec("torch") is None:
        return "torch is not installed"
    if net.loss != CrossEntropyLoss() or not all(isinstance(layer, MODULES) for layer in net.layers):
        return "it knows perceptrons only: Flatten, Linear and ReLU, with CrossEntropyLoss"
    if not isinstance(config.optimizer, SGD) or config.optimizer.momentum or config.clip_value is not None:
        return "it knows SGD without momentum and clipping only"
    return None


RUNG = Rung(
    "tutorial",
    "PyTorch as in its tutorials",
    "A Sequential, autograd and torch.optim.",
    Tutorial,
    unsupported,
    peer=True,
)
