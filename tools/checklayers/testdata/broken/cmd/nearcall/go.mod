module example.org/stranger

go 1.26.0
