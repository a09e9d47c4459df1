package main

import _ "github.com/nearcall/nearcall/internal/wire"

func main() {}
