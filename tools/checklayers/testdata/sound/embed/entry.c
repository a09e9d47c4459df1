int entry;
