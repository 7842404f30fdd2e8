"""Compiles functions that call one another as one program: LLVM optimises and translates it once.

Numba by itself optimises each function and makes machine code of it before it compiles the callers, and does so again
within each of these; that takes twice as long.
"""

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]  # in C
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import InlineOverloads, NativeLowering, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

# Passes for what the loops do not have: closures, and expressions of whole arrays.
NEEDLESS = (InlineClosureLikes, InlineOverloads, NopythonRewrites)


class Unoptimised(JITCodeLibrary):
    """LLVM's code of functions, as Numba writes it."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout


class Part(Unoptimised):
    """LLVM's code of one function, which is only linked into programs."""

    def finalize(self) -> None:
        """Make no machine code of it."""
        self._raise_if_finalized()
        self._finalized = True


class Program(Unoptimised):
    """LLVM's code of a function that Python calls, and of all functions that it calls."""

    def _optimize_final_module(self) -> None:
        """Optimise once; Numba does so twice, to remove counts of references in between, of which there are none."""
        manager, builder = self._codegen._module_pass_manager()
        manager.run(self._final_module, builder)


@register_pass(mutates_CFG=False, analysis_only=True)
class LinkedPart(AnalysisPass):
    """Lets other functions call a part: they know it by a handle, which Python cannot call."""

    _name = "registered"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Register it, with all parts that are to be linked with it."""
        lowered, part = state.cr, state.library
        module, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname
        handle = _dynfunc.make_function(module, name, "", 0, lowered.env, (part,))
        state.targetctx.insert_user_function(handle, lowered.fndesc, [part, *part._linking_libraries])
        state.cr = lowered._replace(cfunc=handle)
        return False


class PartCompiler(CompilerBase):
    """Numba's compiler, for parts."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = Part(self.state.targetctx.codegen(), "part")
        self.state.flags.no_compile = True

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes but the needless ones, and ours."""
        passes: Any = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(one, name) for one, name in passes.passes if one not in NEEDLESS]
        passes.add_pass_after(LinkedPart, NativeLowering)
        passes.finalize()
        return [passes]


class ProgramCompiler(CompilerBase):
    """Numba's compiler, for programs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.library = Program(self.state.targetctx.codegen(), "program")
        self.state.library.enable_object_caching()

    def define_pipelines(self) -> list[Any]:
        """Return Numba's passes."""
        return [DefaultPassBuilder.define_nopython_pipeline(self.state)]
