module stories

go 1.19

require quire v0.0.0

replace quire => ../../bindings/go/quire
