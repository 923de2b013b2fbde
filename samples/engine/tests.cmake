# Small runs of the engine: verified, with every fault, over other memories and models, and the ways in which a command line can be wrong.
add_dependencies(quire_engine quire_driver_cpu)

function(engine_test name)
  add_test(NAME engine_${name} COMMAND quire_engine ${ARGN})
  set_tests_properties(engine_${name} PROPERTIES LABELS samples TIMEOUT 300 ENVIRONMENT "QUIRE_DRIVER=cpu")
endfunction()

set(small --conversations 10 --turns 3 --open 5 --batch 5 --layers 4 --rows 2000)
set(tight ${small} --pool 860K)
set(models ${PROJECT_SOURCE_DIR}/samples/models)
engine_test(verify ${tight} --verify --check 7)
engine_test(own_memory ${tight} --verify --memory engine)
engine_test(no_reuse ${tight} --verify --no-reuse)
engine_test(bookkeeping ${tight} --memory none --check 1)
engine_test(qwen3_next ${small} --pool 1100K --verify --model ${models}/qwen3-next-80b.json --layers 4 --head-dim 32 --state-heads 4 --state-dim 16)
foreach(fault swap-block stale-state other-prefix)
  engine_test(${fault} ${tight} --fault ${fault})
endforeach()

# The small run meets what it is there for.
set_tests_properties(engine_verify engine_own_memory engine_qwen3_next PROPERTIES
  FAIL_REGULAR_EXPRESSION " preemptions +0 ; hit tokens +0 ; hand-overs +0 ; forks +0 ")

set(trace_line "{\"timestamp\": 0, \"input_length\": 2000, \"output_length\": 64, \"hash_ids\": [1, 2, 3, 4]}\n")
string(REPLACE "3, 4" "5, 6" other_line "${trace_line}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/trace.jsonl "${trace_line}${other_line}${trace_line}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/bad.jsonl "${trace_line}{\"input_length\": 2000}\n")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/bad.json "{\"architectures\": [")
engine_test(trace --trace ${CMAKE_CURRENT_BINARY_DIR}/trace.jsonl --verify --scale-tokens 128 --context 1024)

function(engine_refuses name code text)
  add_test(NAME engine_refuses_${name} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/refuses.sh ${code} ${text} $<TARGET_FILE:quire_engine> ${ARGN})
  set_tests_properties(engine_refuses_${name} PROPERTIES LABELS samples TIMEOUT 60)
endfunction()

# The same answers whatever the plan and whether prefixes are reused.
add_test(NAME engine_policies COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/policies.sh $<TARGET_FILE:quire_engine>)
set_tests_properties(engine_policies PROPERTIES LABELS samples TIMEOUT 300 ENVIRONMENT "QUIRE_DRIVER=cpu")

engine_refuses(option 2 "unknown option --nonsense" --nonsense)
engine_refuses(number 2 "--layers: 'many' is not a number" --layers many)
engine_refuses(model 2 "cannot open" --model /nonexistent/config.json)
engine_refuses(json 2 "INVALID_ARGUMENT" --model ${CMAKE_CURRENT_BINARY_DIR}/bad.json)
engine_refuses(trace 2 "bad.jsonl, line 2: output_length" --trace ${CMAKE_CURRENT_BINARY_DIR}/bad.jsonl)
engine_refuses(small_pool 2 "RESOURCE_EXHAUSTED" --pages 4)
engine_refuses(policy 2 "policy" --policy nonsense)
engine_refuses(outputs_without_memory 2 "--outputs needs bytes" --memory none --outputs ${CMAKE_CURRENT_BINARY_DIR}/none.txt)
engine_refuses(verify_without_memory 2 "--verify needs bytes" --memory none --verify)
add_test(NAME engine_refuses_driver COMMAND ${CMAKE_COMMAND} -E env QUIRE_DRIVER=nosuch ${CMAKE_CURRENT_SOURCE_DIR}/refuses.sh 3
  "nosuch" $<TARGET_FILE:quire_engine>)
set_tests_properties(engine_refuses_driver PROPERTIES LABELS samples TIMEOUT 60)

# Requests from a trace file, a block of 512 tokens shrunk to 32.
add_test(NAME engine_conversations COMMAND quire_engine --trace ${CMAKE_CURRENT_SOURCE_DIR}/conversations.jsonl --requests 24 --scale-tokens 32
  --context 1536 --model ${models}/llama-3.1-8b.json --layers 2 --kv-heads 1 --head-dim 32 --pages 200 --verify --rows 2000)
set_tests_properties(engine_conversations PROPERTIES LABELS samples TIMEOUT 300 ENVIRONMENT "QUIRE_DRIVER=cpu")

# Requests as lines, as they arrive.
if(TARGET quire_zmq)
  set(events events)
else()
  engine_refuses(events 2 "built without libquire_zmq" --serve --events ipc:///tmp/events)
endif()
add_test(NAME engine_serve COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/serve.sh $<TARGET_FILE:quire_engine> ${events})
set_tests_properties(engine_serve PROPERTIES LABELS samples TIMEOUT 300 ENVIRONMENT "QUIRE_DRIVER=cpu")
engine_refuses(serve_and_list 2 "one of them" --serve --list-requests)
engine_refuses(serve_outputs 2 "--serve answers on standard output" --serve --outputs ${CMAKE_CURRENT_BINARY_DIR}/none.txt)
engine_refuses(replays_alone 2 "--events is missing" --event-replays ipc:///tmp/replays)
engine_refuses(events_without_reuse 2 "--events needs prefix reuse" --events ipc:///tmp/events --no-reuse)

# Tiers: what a small pool loses comes back, also from what a killed process left. Bad settings are refused.
if(TARGET quire_connector_host AND TARGET quire_connector_file)
  add_dependencies(quire_engine quire_connector_host quire_connector_file)
  foreach(what share kill wrong)
    add_test(NAME tier_engine_${what} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tiers.sh ${what} $<TARGET_FILE:quire_engine>)
    set_tests_properties(tier_engine_${what} PROPERTIES LABELS samples TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT "QUIRE_DRIVER=cpu")
  endforeach()
  # How much of what leaves the pool is stored in time depends on who else runs: nobody.
  set_tests_properties(tier_engine_share PROPERTIES RUN_SERIAL ON)
  function(tier_refuses name code text)
    engine_refuses(tier_${name} ${code} ${text} ${ARGN})
  endfunction()
  tier_refuses(settings 2 "--tier host: NAME:SETTINGS is needed" --tier host)
  tier_refuses(size 2 "config field bytes is \"many\"" --tier host:many)
  tier_refuses(little 2 "config field bytes is \"1KiB\"" --tier host:1KiB)
  tier_refuses(much 3 "the machine has" --tier host:99TiB)
  tier_refuses(directory 2 "a directory and a size are needed" --tier file:1GiB)
  tier_refuses(parent 2 "directory /nonexistent/parent/tier cannot be made" --tier file:/nonexistent/parent/tier:1GiB)
  tier_refuses(field 2 "unknown field \"colour\"" --tier "host:{\"bytes\": \"1MiB\", \"colour\": 1}")
  tier_refuses(json 2 "config" --tier "host:{\"bytes\"")
  tier_refuses(connector 2 "no file libquire_connector_nosuch.so" --tier "nosuch:{}")
  tier_refuses(form 2 "settings of this connector are JSON" --tier redis:localhost)
  tier_refuses(many 2 "at most 8 tiers" --tier host:1MiB --tier host:1MiB --tier host:1MiB --tier host:1MiB --tier host:1MiB --tier host:1MiB
    --tier host:1MiB --tier host:1MiB --tier host:1MiB)
  tier_refuses(unit 2 "options.unit_tokens: 17" --tier host:1MiB --unit 17)
  tier_refuses(unit_alone 2 "--tier is missing" --unit 64)
  tier_refuses(without_memory 2 "--tier needs bytes" --tier host:1MiB --memory none)
  tier_refuses(without_reuse 2 "--tier needs prefix reuse" --tier host:1MiB --no-reuse)
endif()

# Metrics while it serves.
if(TARGET quire_exporter)
  add_test(NAME metrics_engine COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/metrics.sh $<TARGET_FILE:quire_engine>)
  set_tests_properties(metrics_engine PROPERTIES LABELS samples TIMEOUT 300 ENVIRONMENT "QUIRE_DRIVER=cpu")
  engine_refuses(metrics_address 2 "the port is a number" --metrics 127.0.0.1:x)
else()
  engine_refuses(metrics 2 "built without libquire_exporter" --metrics 127.0.0.1:9464)
endif()
