/* What all stand on.
 * May include: nothing of the library's. */
