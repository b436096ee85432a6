"""Two digits' images that ship with scikit-learn, as row tokens."""

import numpy as np

from .._checks import check_count
from .tokens import TokenData


def digit_tokens(n: int = 8, classes: tuple[int, int] = (3, 8), *, seed: int = 0) -> TokenData:
    """`n` images of two digits: the eight rows of pixels are the tokens, their mean is the query.

    From `sklearn.datasets.load_digits` (1797 images of 8 x 8 pixels, values 0..16, here divided by 16): `X` is
    `(n, 8, 8)`, `z_i` the mean row of image `i`, `y_i = -1` for `classes[0]` and `+1` for `classes[1]`. The head is
    fixed by the classes and not by the draw: the mean row of all images of `classes[1]` minus that of `classes[0]`,
    scaled to norm one.

    Drawn from `numpy.random.default_rng(seed)`: `n // 2` images of `classes[1]` and the others of `classes[0]`, each
    without replacement, in random order. Nothing is dropped: equal rows and tied targets are in `duplicate_tokens`,
    `ties` and `notes`. The data need not be separable: of 30 seeds with the classes 3 and 8, all are with n = 8 (any
    weights, best-scored tokens, linear program) and none with n = 200.

    Raises `ValueError` for classes that are not two different digits, `n < 2`, more images than there are, a negative
    seed.
    """
    # Imported here: scikit-learn takes a second that other data need not pay.
    from sklearn.datasets import load_digits

    check_count(n, "n", least=2)
    check_count(seed, "seed", least=0)
    if len(classes) != 2 or any(c not in range(10) for c in classes) or classes[0] == classes[1]:
        raise ValueError(f"`classes` must be two different digits, such as (3, 8); got {classes!r}.")
    pixels, target = map(np.asarray, load_digits(return_X_y=True))
    images = pixels.reshape(-1, 8, 8) / 16
    members = [np.flatnonzero(target == c) for c in classes]
    counts = (n - n // 2, n // 2)
    for c, found, wanted in zip(classes, members, counts, strict=True):
        if wanted > found.size:
            raise ValueError(f"n = {n} takes {wanted} images of the digit {c}; there are {found.size}.")
    head = images[members[1]].mean(axis=(0, 1)) - images[members[0]].mean(axis=(0, 1))
    rng = np.random.default_rng(seed)
    chosen = np.concatenate([rng.choice(found, k, replace=False) for found, k in zip(members, counts, strict=True)])
    chosen = rng.permutation(chosen)
    X = images[chosen]
    return TokenData(
        X=X,
        z=X.mean(axis=1),
        y=np.where(target[chosen] == classes[1], 1.0, -1.0),
        v=head / np.linalg.norm(head),
        name=f"digits {classes[0]} and {classes[1]}",
    )
