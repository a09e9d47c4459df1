/* What the environment says to the launcher itself. */
#ifndef NC_SETTINGS_H
#define NC_SETTINGS_H

/* NEARCALL_NO_RESIDENT is not empty. */
int nc_setting_plain(void);

/* NEARCALL_RUN_DEBUG is not empty. */
int nc_setting_debug(void);

/* Limit resident_answer_ms, or NEARCALL_RUN_ANSWER_MS up to the most that is
 * allowed. What is no number above 0 counts as not set. */
int nc_setting_answer_ms(void);

#endif
