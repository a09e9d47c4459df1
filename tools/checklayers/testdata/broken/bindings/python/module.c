#include "../../libnearcall/src/wire/wire.c"
