"""Federate scikit-learn's SGDClassifier: clients train it on the records of a round, and its weights are averaged."""

import sys
from itertools import islice

import numpy as np
from river import datasets, metrics

from streamfl import MasterFLClassifier

try:
    from sklearn.linear_model import SGDClassifier
except ImportError:
    sys.exit("this example needs scikit-learn: pip install scikit-learn")


class SGD:
    """A logistic regression of scikit-learn, with the intercept as the last row of its weights."""

    def __init__(self, features: int, labels: int):
        self.model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1, random_state=1)
        known = np.arange(labels)
        self.model.partial_fit(np.zeros((labels, features)), known, classes=known)  # makes the arrays of weights
        self.set_weights(np.zeros((features + 1, len(self.model.intercept_))))

    def weights(self):
        """Return the coefficients by feature and label, then the intercepts."""
        return np.vstack([self.model.coef_.T, self.model.intercept_])

    def set_weights(self, weights):
        """Continue from these weights."""
        self.model.coef_ = np.ascontiguousarray(weights[:-1].T)
        self.model.intercept_ = weights[-1].copy()

    def learn(self, X, y):
        """Take one pass over the records."""
        self.model.partial_fit(X, y)

    def predict(self, X):
        """Return the probability of each label."""
        return self.model.predict_proba(X)


def score(records=2000):
    """Return the accuracy of four clients, whose records are predicted before they are learnt."""
    model, accuracy = MasterFLClassifier(model=SGD, client="client", round_size=25), metrics.Accuracy()
    for i, (x, y) in enumerate(islice(datasets.ImageSegments(), records)):
        x["client"] = f"c{i % 4}"
        guess = model.predict_one(x)
        if guess is not None:
            accuracy.update(y, guess)
        model.learn_one(x, y)
    return accuracy


if __name__ == "__main__":
    print(f"four clients, merged: {score()}")
