module quire.example/quire/bindings/go

go 1.19
