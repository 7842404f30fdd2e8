"""A federation as a step of a River pipeline: scored test-then-train, saved, and loaded again."""

import tempfile
from pathlib import Path

from river import compose, datasets, evaluate, metrics

from streamfl import MasterFLClassifier

stream = datasets.Phishing()
model = compose.Discard("is_popular") | MasterFLClassifier(round_size=100, seed=1)
score = evaluate.progressive_val_score(stream, model, metrics.Accuracy() + metrics.CohenKappa())
print(score)

learner = model["MasterFLClassifier"]
print(f"{learner.summary['rounds']} rounds, {len(learner.restarts)} restarts")
print("shares in the predictions:", dict(sorted(learner.summary["serving"].items(), key=lambda item: -item[1])[:3]))

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "phishing.streamfl"
    learner.save(path)
    again = MasterFLClassifier.load(path)
    x, _ = next(iter(stream))
    x.pop("is_popular")
    assert again.predict_proba_one(x) == learner.predict_proba_one(x)
    print(f"saved in {path.stat().st_size / 1e6:.1f} MB; the copy answers the same")
