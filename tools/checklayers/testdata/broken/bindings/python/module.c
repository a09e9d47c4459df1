#include "../../libnearcall/src/wire.c"
