"""Atomics, fences and a handful of libc calls as numba intrinsics: the only module that builds LLVM instructions.

Each atomic takes a place, written as two arguments: a record and a literal field name, ``READ_ONCE(txq, "state")``, or
a one-dimensional array and an index, ``READ_ONCE(slots, i)``. Widths of 1, 2, 4 and 8 bytes. The names are those of the
Linux-kernel memory model (tools/memory-model, Documentation/atomic_t.txt, Documentation/memory-barriers.txt).

:mod:`emulator.kernel.plain` is the twin of this module; :mod:`emulator.kernel.memory` picks one of the two.
"""

import platform

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

binding.initialize_native_asmparser()  # for the two places with inline assembly

_I8 = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
_X86 = platform.machine() in ("x86_64", "AMD64")
_SYS_FUTEX = {"x86_64": 202, "AMD64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221}.get(platform.machine(), 98)
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_CLOCK_MONOTONIC = 1


def _place_type(place, key):
    """numba type of the word at (place, key)."""
    if isinstance(place, types.Record):
        if not isinstance(key, types.StringLiteral):
            raise TypingError("the field of a record is a literal string")
        kind = place.typeof(key.literal_value)
    elif isinstance(place, types.Array) and place.ndim == 1:
        if not isinstance(key, types.Integer | types.IntegerLiteral):
            raise TypingError("the element of an array is an integer")
        kind = place.dtype
    else:
        raise TypingError(f"an atomic acts on a record's field or an array's element, not on {place}")
    if not isinstance(kind, types.Integer):
        raise TypingError(f"an atomic acts on an integer, not on {kind}")
    return kind


def _address(context, builder, place_type, place, key_type, key, kind):
    """LLVM pointer to the word at (place, key)."""
    if isinstance(place_type, types.Record):
        base = builder.bitcast(place, _I8.as_pointer())
        offset = ir.Constant(_I64, place_type.offset(key_type.literal_value))
    else:
        array = context.make_array(place_type)(context, builder, place)
        base = builder.bitcast(array.data, _I8.as_pointer())
        index = context.cast(builder, key, key_type, types.int64)
        offset = builder.mul(index, cgutils.unpack_tuple(builder, array.strides, 1)[0])
    return builder.bitcast(builder.gep(base, [offset]), context.get_value_type(kind).as_pointer())


def _load(ordering):
    @intrinsic(prefer_literal=True)
    def load(typingctx, place, key):
        kind = _place_type(place, key)

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
            return builder.load_atomic(pointer, ordering, kind.bitwidth // 8)

        return kind(place, key), codegen

    return load


def _store(ordering):
    @intrinsic(prefer_literal=True)
    def store(typingctx, place, key, value):
        kind = _place_type(place, key)

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
            word = context.cast(builder, args[2], signature.args[2], kind)
            builder.store_atomic(word, pointer, ordering, kind.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(place, key, types.unliteral(value)), codegen

    return store


def _rmw(operation, ordering="seq_cst"):
    """Read-modify-write returning the *old* value."""

    @intrinsic(prefer_literal=True)
    def rmw(typingctx, place, key, value):
        kind = _place_type(place, key)

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
            word = context.cast(builder, args[2], signature.args[2], kind)
            return builder.atomic_rmw(operation, pointer, word, ordering)

        return kind(place, key, types.unliteral(value)), codegen

    return rmw


READ_ONCE = _load("monotonic")
smp_load_acquire = _load("acquire")
WRITE_ONCE = _store("monotonic")
smp_store_release = _store("release")
xchg = _rmw("xchg")
atomic_fetch_add = _rmw("add")
atomic_fetch_or = _rmw("or")
atomic_fetch_and = _rmw("and")
atomic_add = _rmw("add", "monotonic")


@intrinsic(prefer_literal=True)
def cmpxchg(typingctx, place, key, old, new):
    """Store ``new`` if the word is ``old``; returns the value found, so success is ``result == old``. Full barrier."""
    kind = _place_type(place, key)

    def codegen(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
        expected = context.cast(builder, args[2], signature.args[2], kind)
        wanted = context.cast(builder, args[3], signature.args[3], kind)
        found = builder.cmpxchg(pointer, expected, wanted, "seq_cst", "seq_cst")
        return builder.extract_value(found, 0)

    return kind(place, key, types.unliteral(old), types.unliteral(new)), codegen


def _fence(ordering):
    @intrinsic
    def fence(typingctx):
        def codegen(context, builder, signature, args):
            builder.fence(ordering)
            return context.get_dummy_value()

        return types.void(), codegen

    return fence


@intrinsic
def smp_mb(typingctx):
    """Full barrier. On x86 a locked add to the stack, as the kernel does it, because mfence is slower."""

    def codegen(context, builder, signature, args):
        if _X86:
            void = ir.FunctionType(ir.VoidType(), [])
            builder.asm(void, "lock; addl $$0,-4(%rsp)", "~{memory},~{dirflag},~{fpsr},~{flags}", (), side_effect=True)
        else:
            builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


smp_rmb = _fence("acquire")
smp_wmb = _fence("release")


@intrinsic
def cpu_relax(typingctx):
    """The pause instruction of a spin loop (x86 pause, arm64 yield)."""

    def codegen(context, builder, signature, args):
        void = ir.FunctionType(ir.VoidType(), [])
        builder.asm(
            void,
            "pause" if _X86 else "yield" if platform.machine() == "aarch64" else "nop",
            "~{memory}",
            (),
            side_effect=True,
        )
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic(prefer_literal=True)
def prefetch(typingctx, place, key):
    """Begin to fetch the line of the word at (place, key), which is about to be written. Changes nothing."""
    kind = _place_type(place, key)

    def codegen(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
        address = builder.bitcast(pointer, _I8.as_pointer())
        hint = ir.FunctionType(ir.VoidType(), [address.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0i8")
        for_writing, keep, data = (ir.Constant(_I32, value) for value in (1, 3, 1))
        builder.call(function, [address, for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(place, key), codegen


@intrinsic
def rdtsc(typingctx):
    """The processor's cycle counter; only meaningful where the launcher found a usable one."""

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I64, []), "llvm.readcyclecounter")
        return builder.call(function, [])

    return types.int64(), codegen


@intrinsic
def mul_u64_u64_shr(typingctx, value, factor, shift):
    """``(value * factor) >> shift`` with a 128-bit product (include/linux/math64.h)."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, builder.zext(args[2], wide)), _I64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def clock_monotonic_ns(typingctx):
    """CLOCK_MONOTONIC in nanoseconds, from libc."""

    def codegen(context, builder, signature, args):
        timespec = cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
        kind = ir.FunctionType(_I32, [_I32, timespec.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.Constant(_I32, _CLOCK_MONOTONIC), timespec])
        parts = builder.load(timespec)
        seconds = builder.mul(builder.extract_value(parts, 0), ir.Constant(_I64, 1_000_000_000))
        return builder.add(seconds, builder.extract_value(parts, 1))

    return types.int64(), codegen


@intrinsic
def sched_yield(typingctx):
    """Give the CPU to another task that is ready (libc sched_yield)."""

    def codegen(context, builder, signature, args):
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I32, []), "sched_yield")
        builder.call(function, [])
        return context.get_dummy_value()

    return types.void(), codegen


def _futex(operation):
    @intrinsic(prefer_literal=True)
    def futex(typingctx, place, key, value, timeout_ns):
        kind = _place_type(place, key)
        if kind.bitwidth != 32:
            raise TypingError("a futex word has 32 bits")

        def codegen(context, builder, signature, args):
            pointer = _address(context, builder, signature.args[0], args[0], signature.args[1], args[1], kind)
            timeout = context.cast(builder, args[3], signature.args[3], types.int64)
            billion = ir.Constant(_I64, 1_000_000_000)
            timespec = cgutils.alloca_once(builder, ir.ArrayType(_I64, 2))
            parts = builder.insert_value(
                ir.Constant(timespec.type.pointee, ir.Undefined), builder.sdiv(timeout, billion), 0
            )
            builder.store(builder.insert_value(parts, builder.srem(timeout, billion), 1), timespec)
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_I64, [_I64], var_arg=True), "syscall"
            )
            word = context.cast(builder, args[2], signature.args[2], types.int64)
            return builder.call(
                function,
                [ir.Constant(_I64, _SYS_FUTEX), pointer, ir.Constant(_I64, operation), word, timespec]
                + [ir.Constant(_I64, 0)] * 2,
            )

        return types.int64(place, key, types.unliteral(value), types.unliteral(timeout_ns)), codegen

    return futex


futex_wait = _futex(_FUTEX_WAIT)
"""``futex_wait(place, key, value, timeout_ns)``: sleep while the word is ``value``, at most ``timeout_ns``."""
futex_wake = _futex(_FUTEX_WAKE)
"""``futex_wake(place, key, count, 0)``: wake up to ``count`` sleepers; returns how many. Shared between processes."""
