module causeway.example/bindings

go 1.19
