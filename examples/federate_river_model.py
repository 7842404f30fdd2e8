"""Federate a model of River's own: four clients learn apart, and meet after every round."""

from river import datasets, linear_model, metrics, optim, preprocessing

from streamfl import MasterFLClassifier

SPELT = "river:preprocessing.StandardScaler|linear_model.LogisticRegression(optim.SGD(0.1))"


def pipeline():
    """Return the same model as an object."""
    return preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1))


def dealt():
    """Yield the records of Phishing in turn to four clients, as a feature that names them."""
    for i, (x, y) in enumerate(datasets.Phishing()):
        yield {**x, "client": f"c{i % 4}"}, y


def score(model):
    """Return the accuracy of predicting each record before it is learnt."""
    accuracy = metrics.Accuracy()
    for x, y in dealt():
        guess = model.predict_one(x)
        if guess is not None:
            accuracy.update(y, guess)
        model.learn_one(x, y)
    return accuracy


merged = score(MasterFLClassifier(model=SPELT, client="client", round_size=25))
print(f"four clients that meet:   {merged}")
alone = metrics.Accuracy()
models = {f"c{i}": pipeline() for i in range(4)}
for x, y in dealt():
    model = models[x.pop("client")]
    alone.update(y, model.predict_one(x))
    model.learn_one(x, y)
print(f"four clients that do not: {alone}")
assert merged.get() > alone.get()
