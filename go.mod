module github.com/nearcall/nearcall

go 1.26.0
