/* The name of one version of a program. */
#ifndef NC_IDENTITY_H
#define NC_IDENTITY_H

#include "place.h"
#include "program.h"

/* PROGRAM-IDENTITY of a program that was found. */
void nc_identity_name(const struct program *program, char name[NC_PLACE_NAME_BYTES]);

#endif
