"""Every x86-64 processor comes to the same last digits, before numpy is imported: what a fit decides may hang on them.

Numpy and OpenBLAS choose their code by what the processor has; an AVX-512 one takes other logarithms and adds up in
another order than one without. Here all take the code for AVX2, which every machine that runs tests has.
"""

import os
import platform
import sys
from importlib import metadata

if platform.machine() in {"x86_64", "AMD64"}:
    assert "numpy" not in sys.modules, "import this first"
    # Numpy 2.4 gave them other names, and warns of names that it does not have.
    since_2_4 = tuple(map(int, metadata.version("numpy").split(".")[:2])) >= (2, 4)
    before = "AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
    features = "X86_V4 AVX512_ICL AVX512_SPR" if since_2_4 else before
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", features)
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
