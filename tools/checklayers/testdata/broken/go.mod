module github.com/nearcall/nearcall

go 1.26.0

require example.org/heavy v1.0.0
