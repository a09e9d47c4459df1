// Package main is a library with an empty function: what entering Go costs.
package main

import "C"

//export empty
func empty() {}

func main() {}
