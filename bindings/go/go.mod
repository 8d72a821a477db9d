module moert

go 1.19
