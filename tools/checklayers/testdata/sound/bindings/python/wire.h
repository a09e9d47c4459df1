/* The binding's own, though it is named like one of libnearcall. */
