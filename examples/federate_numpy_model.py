"""Federate a model of your own: a small network in NumPy, whose weights are averaged after every round.

A package that registers the class under the entry point group `streamfl.models` gives it a name for `--model`,
settings files and saved estimators: `network = "its_module:Network"`.
"""

import numpy as np
from river import datasets, metrics

from streamfl import MasterFLClassifier


class Network:
    """One hidden layer, trained by a hundred steps of gradient descent on the records of a round."""

    hidden, steps, rate = 8, 100, 0.3

    def __init__(self, features: int, labels: int):
        rng = np.random.default_rng(1)  # every client begins with the same weights
        self.into = rng.normal(0.0, features**-0.5, (features, self.hidden))
        self.out = np.zeros((self.hidden, labels))

    def weights(self):
        """Return both layers as one vector."""
        return np.concatenate([self.into.ravel(), self.out.ravel()])

    def set_weights(self, weights):
        """Split a vector into both layers."""
        into, out = np.split(weights, [self.into.size])
        self.into, self.out = into.reshape(self.into.shape), out.reshape(self.out.shape)

    def predict(self, X):
        """Return the probability of each label."""
        scores = np.exp(np.tanh(X @ self.into) @ self.out)
        return scores / scores.sum(axis=1, keepdims=True)

    def learn(self, X, y):
        """Descend on the cross-entropy."""
        for _ in range(self.steps):
            hidden = np.tanh(X @ self.into)
            error = (self.predict(X) - np.eye(self.out.shape[1])[y]) / len(y)
            back = X.T @ (error @ self.out.T * (1.0 - hidden**2))
            self.out = self.out - self.rate * hidden.T @ error
            self.into = self.into - self.rate * back


def score():
    """Return the accuracy of four clients, whose records are predicted before they are learnt."""
    model, accuracy = MasterFLClassifier(model=Network, client="client", round_size=25), metrics.Accuracy()
    for i, (x, y) in enumerate(datasets.Phishing()):
        x["client"] = f"c{i % 4}"
        guess = model.predict_one(x)
        if guess is not None:
            accuracy.update(y, guess)
        model.learn_one(x, y)
    return accuracy


if __name__ == "__main__":
    print(f"four clients, merged: {score()}")
