package nearcall
