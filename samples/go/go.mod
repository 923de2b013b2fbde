module quire.example/quire/bindings/go/samples

go 1.19

require quire.example/quire/bindings/go v0.2.0

replace quire.example/quire/bindings/go => ../../bindings/go
