module quire

go 1.19
