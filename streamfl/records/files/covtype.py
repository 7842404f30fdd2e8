"""The data set that ships with streamfl: forest cover types of Colorado."""

from dataclasses import replace
from importlib.resources import as_file, files

from streamfl.records.files.npz_file import Npz
from streamfl.records.request import Request
from streamfl.records.table import Table

FEATURES = (
    "Elevation",
    "Aspect",
    "Slope",
    "Horizontal_Distance_To_Hydrology",
    "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways",
    "Hillshade_9am",
    "Hillshade_Noon",
    "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
)


def covtype() -> Table:
    """Return 92,962 records of Forest Covertype: 54 features, 7 classes, in random order.

    Copyright Jock A. Blackard and Colorado State University; `data/NOTICE.md` names the source.

    >>> table = covtype()
    >>> table.X.shape, table.features[:3], table.labels
    ((92962, 54), ('Elevation', 'Aspect', 'Slope'), ('0', '1', '2', '3', '4', '5', '6'))
    """
    with as_file(files("streamfl.records.files").joinpath("data", "covtype.npz")) as path:
        return replace(Npz.table(Request("covtype"), path), name="covtype", features=FEATURES)
