module github.com/nearcall/nearcall/tools

go 1.26.0
