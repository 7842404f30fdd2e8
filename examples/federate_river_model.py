"""Federate a River model: four clients learn separately and are merged after every round."""

from river import datasets, linear_model, metrics, optim, preprocessing

from streamfl import MasterFLClassifier

MODEL = "river:preprocessing.StandardScaler|linear_model.LogisticRegression(optim.SGD(0.1))"


def pipeline():
    """Return the same model as an object."""
    return preprocessing.StandardScaler() | linear_model.LogisticRegression(optim.SGD(0.1))


def dealt():
    """Yield the records of Phishing, dealt in turn to four clients that a feature names."""
    for i, (x, y) in enumerate(datasets.Phishing()):
        yield {**x, "client": f"c{i % 4}"}, y


def score(model):
    """Return the prequential accuracy: each record is predicted before it is learnt."""
    accuracy = metrics.Accuracy()
    for x, y in dealt():
        guess = model.predict_one(x)
        if guess is not None:
            accuracy.update(y, guess)
        model.learn_one(x, y)
    return accuracy


merged = score(MasterFLClassifier(model=MODEL, client="client", round_size=25))
print(f"four clients, merged:   {merged}")
alone = metrics.Accuracy()
models = {f"c{i}": pipeline() for i in range(4)}
for x, y in dealt():
    model = models[x.pop("client")]
    alone.update(y, model.predict_one(x))
    model.learn_one(x, y)
print(f"four clients, isolated: {alone}")
assert merged.get() > alone.get()
