# A drawing of the documentation is what the tool draws now. Variables: QUIRE MODEL POLICY DRAWN KEPT.
execute_process(COMMAND ${QUIRE} plan ${MODEL} --memory 80GiB --tp 2 --policy ${POLICY} --svg ${DRAWN} RESULT_VARIABLE failed OUTPUT_QUIET)
if(failed)
  message(FATAL_ERROR "quire plan --policy ${POLICY} failed: ${failed}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${DRAWN} ${KEPT} RESULT_VARIABLE differs)
if(differs)
  message(FATAL_ERROR "${KEPT} is not what the tool draws; look at ${DRAWN} and copy it there")
endif()
