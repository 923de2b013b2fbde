# Which GPUs a hipcc has code for. Debian's knows neither gfx942 nor gfx12, and of gfx11 it has no device library; a newer one does.
# The base is always asked for; what came later is taken where the compiler knows it.
set(QUIRE_ROCM_BASE gfx90a gfx940 gfx1030)
set(QUIRE_ROCM_NEWER gfx942 gfx950 gfx1100 gfx1101 gfx1200 gfx1201)

# quire_rocm_targets(OUT COMPILER FOLDER wanted...): those of `wanted` for which the compiler makes code, tried one by one with a probe in
# FOLDER; "all" is the base and what is newer. Says what is left out.
function(quire_rocm_targets out compiler folder)
  set(wanted ${ARGN})
  if("all" IN_LIST wanted)
    list(REMOVE_ITEM wanted all)
    list(APPEND wanted ${QUIRE_ROCM_BASE} ${QUIRE_ROCM_NEWER})
    list(REMOVE_DUPLICATES wanted)
  endif()
  file(WRITE ${folder}/probe.hip "extern \"C\" __attribute__((global)) void probe() {}\n")
  set(known)
  set(unknown)
  foreach(target ${wanted})
    execute_process(COMMAND ${compiler} -x hip --offload-arch=${target} --genco ${folder}/probe.hip -o ${folder}/probe.${target}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      list(APPEND unknown ${target})
    else()
      list(APPEND known ${target})
    endif()
  endforeach()
  if(unknown)
    string(JOIN ", " names ${unknown})
    message(STATUS "quire: ${compiler} makes no code for ${names}, so the ROCm driver has no kernels for them")
  endif()
  set(${out} ${known} PARENT_SCOPE)
endfunction()
