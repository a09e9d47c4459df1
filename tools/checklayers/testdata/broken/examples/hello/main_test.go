package main_test

import _ "github.com/nearcall/nearcall/internal/novel"
