#!/bin/bash
# What the ROCm driver's kernels were compiled to: attention by matrix instructions multiplies by MFMA in the code of gfx90a, gfx94x and
# gfx950, by WMMA in that of gfx11, as often as its tiles want, and nowhere else; the code says of itself whether it does (quire_gpu_matrix);
# nothing is spilled to scratch memory but by the tiles of prefill over V of more than 128, and by more of them where nobody has looked for
# registers yet (gfx11, whose default are dot products as everywhere).
#   rocm_isa.sh FOLDER TARGET...
set -u
folder=$1
shift
objdump=$(command -v llvm-objdump-15 || command -v llvm-objdump-16 || command -v llvm-objdump)  # hipcc's own; older ones fail on its code
[ -n "$objdump" ] || { echo "skipped: rocm_isa: no llvm-objdump is installed"; exit 77; }
python3 - "$folder" "$objdump" "$@" <<'PY'
import re, struct, subprocess, sys, tempfile
folder, objdump, *targets = sys.argv[1:]
assert targets, "no targets"

def objects(unit):  # of a bundle: architecture -> ELF
    data = open(f"{folder}/{unit}.hipfb", "rb").read()
    assert data[:24] == b"__CLANG_OFFLOAD_BUNDLE__", unit
    at, found = 32, {}
    for _ in range(struct.unpack_from("<Q", data, 24)[0]):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        name = data[at + 24:at + 24 + length].decode()
        at += 24 + length
        if "amdgcn" in name and size:
            found[re.search(r"gfx[0-9a-f]+", name)[0]] = data[offset:offset + size]
    return found

def kernels(elf, arch):  # name -> its instructions
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(elf)
        file.flush()
        text = subprocess.run([objdump, "-d", f"--mcpu={arch}", file.name], check=True, capture_output=True, text=True).stdout
        data = subprocess.run([objdump, "-t", "-s", "-j", ".data", file.name], capture_output=True, text=True).stdout
    found, name = {}, None
    for line in text.splitlines():
        header = re.match(r"[0-9a-f]+ <(\w+)>:", line)
        if header:
            name = header[1]
            found[name] = []
        elif name and line.strip():
            found[name].append(line.split()[0])
    return found, data

def product_of(arch):  # the instruction that multiplies tiles
    if arch in ("gfx90a", "gfx950") or arch.startswith("gfx94"):
        return "v_mfma_f32_16x16x16"
    return "v_wmma_f32_16x16x16" if arch.startswith("gfx11") else None

products = {}
for unit in ("attend", "attend_mma"):
    assert sorted(objects(unit)) == sorted(targets), (unit, sorted(objects(unit)), targets)
    for arch, elf in objects(unit).items():
        matrix = product_of(arch)
        found, data = kernels(elf, arch)
        found = {name: body for name, body in found.items() if name.startswith("quire_kernel_")}
        assert len(found) == {"attend": 2, "attend_mma": 12}[unit], (unit, arch, sorted(found))
        scratch = re.findall(rb"\.name.{1,2}?(quire_kernel_\w+?)\xbb\.private_segment_fixed_size(.)", elf, re.S)
        assert len(scratch) == len(found), (unit, arch, scratch)
        for name, bytes_ in scratch:
            allowed = b"tile_" in name and name.endswith(b"_256") or unit == "attend_mma" and arch.startswith("gfx11")
            assert bytes_ == b"\0" or allowed, (arch, name, "uses scratch memory")
        for name, body in found.items():
            count = sum(op.startswith(("v_mfma", "v_wmma")) for op in body)
            if unit == "attend_mma" and matrix:
                tiles = 16 if "_256" in name else 8 if "_128" in name else 4
                half = sum(op.startswith(matrix) and ("bf16" in op) == ("bf16" in name) for op in body)
                mixed = name.startswith("quire_kernel_tile")
                least = 1 + tiles + (4 + 4 * tiles if mixed else 0)  # as in instructions_test.cc, one instruction a product
                assert count >= least, (arch, name, count, least)
                assert half == count, (arch, name, "another format's products")
                products[arch] = products.get(arch, 0) + count
            else:
                assert count == 0, (arch, name, count)
                if unit == "attend_mma":
                    assert any(op == "s_trap" for op in body) or len(body) < 64, (arch, name, "neither products nor a trap")
        if unit == "attend_mma":
            assert b"quire_gpu_matrix" in elf, arch
            words = re.findall(r"^ [0-9a-f]+ ([0-9a-f]{8})", data, re.M)
            said = int.from_bytes(bytes.fromhex(words[0]), "little") if words else 0  # zeros lie in .bss
            assert said == (1 if matrix else 0), (arch, said)
print("products by matrix instructions:", products)
PY
