"""Every x86-64 processor comes to the same last digits, before numpy is imported: what a fit decides may hang on them.

Numpy and OpenBLAS choose their code by what the processor has; an AVX-512 one takes other logarithms and adds up in
another order than one without. Here all take the code for AVX2, which every machine that runs tests has.
"""

import os
import platform
import sys

if platform.machine() in {"x86_64", "AMD64"}:
    assert "numpy" not in sys.modules, "import this first"
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR")
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
