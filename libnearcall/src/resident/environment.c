/* Variables that are read only once, and what the program has made of its own before a run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "resident/resident.h"

extern char **environ;

/* A launcher adds these to the environment of a resident; they are nothing of a run's. */
static const char *const launchers[] = {
    "LISTEN_FDS=", "LISTEN_PID=", "LISTEN_FDNAMES=", "NEARCALL_RESIDENT_LOCK=", "NEARCALL_RESIDENT_SOCKET=",
    "NEARCALL_RESIDENT_DIRECTORY=", NULL,
};

/* What shells and launchers set for each command anew. A program that reads all variables does
 * not depend on these. */
static const char *const of_commands[] = {"_=", "SHLVL=", "OLDPWD=", "NEARCALL_RUN_", "NEARCALL_NO_RESIDENT=", NULL};

static bool begins_as_one_of(const char *const *names, const char *variable)
{
    for (; *names; names++)
        if (strncmp(variable, *names, strlen(*names)) == 0)
            return true;
    return false;
}

static bool is_launchers(const char *variable)
{
    return begins_as_one_of(launchers, variable);
}

/* ---- Variables that are read once ---- */

static bool is_in(const char *names, const char *end, const char *variable)
{
    size_t length = strcspn(variable, "="), bytes;
    for (const char *name = names; name < end; name += bytes + 1) {
        bytes = strlen(name);
        if (bytes > 0 && name[bytes - 1] == '*' && strncmp(variable, name, bytes - 1) == 0)
            return true;
        if (bytes == length && memcmp(variable, name, bytes) == 0)
            return true;
    }
    return false;
}

static bool is_read_once(const struct nc_resident_self *self, const char *variable)
{
    if (is_launchers(variable))
        return false;
    return is_in(self->names, self->names + self->names_bytes, variable) ||
           (self->reads_all && !begins_as_one_of(of_commands, variable));
}

static bool has_variable(const struct nc_resident_self *self, const char *variable)
{
    const char *end = self->environment + self->environment_bytes;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (strcmp(own, variable) == 0)
            return true;
    return false;
}

static bool is_among(const char *variable, char *const *environment)
{
    for (; *environment; environment++)
        if (strcmp(*environment, variable) == 0)
            return true;
    return false;
}

static const char *refuse(struct nc_resident_self *self, const char *variable)
{
    bool changes = is_in(self->names + self->changed_at, self->names + self->names_bytes, variable);
    snprintf(self->refusal, sizeof(self->refusal),
             changes ? "the program changes the variable %.*s before the run, and the resident was started with another value"
                     : "the variable %.*s is read before the run, and the resident was started with another value",
             (int)strcspn(variable, "="), variable);
    nc_utf8_clean(self->refusal);
    return self->refusal;
}

const char *nc_resident_variable_refusal(struct nc_resident_self *self, char *const *environment)
{
    char *const *given = environment;
    const char *end = self->environment + self->environment_bytes;
    size_t theirs = 0, ours = 0;
    for (; *environment; environment++) {
        if (!is_read_once(self, *environment))
            continue;
        theirs++;
        if (!has_variable(self, *environment))
            return refuse(self, *environment);
    }
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        ours += is_read_once(self, own);
    if (theirs == ours)
        return NULL;
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (is_read_once(self, own) && !is_among(own, given))
            return refuse(self, own);
    return "a variable that is read before the run is set twice";
}

/* ---- What the program has changed ---- */

static bool is_set(const char *variable, char *const *environment)
{
    size_t length = strcspn(variable, "=");
    for (; *environment; environment++)
        if (strncmp(*environment, variable, length) == 0 && (*environment)[length] == '=')
            return true;
    return false;
}

static int append(char **texts, size_t *bytes, const char *text, size_t length)
{
    char *grown = realloc(*texts, *bytes + length + 1);
    if (!grown)
        return -1;
    *texts = grown;
    memcpy(grown + *bytes, text, length);
    grown[*bytes + length] = 0;
    *bytes += length + 1;
    return 0;
}

/* Of what the program has changed: what it makes of it may come from that. */
int nc_resident_add_name(struct nc_resident_self *self, const char *variable)
{
    return append(&self->names, &self->names_bytes, variable, strcspn(variable, "="));
}

static int add_setting(struct nc_resident_self *self, const char *variable)
{
    self->settings_count++;
    return append(&self->settings, &self->settings_bytes, variable, strlen(variable));
}

int nc_resident_changes_keep(struct nc_resident_self *self)
{
    const char *end = self->environment + self->environment_bytes;
    self->changed_at = self->names_bytes;
    for (char **now = environ; now && *now; now++) {
        if (!strchr(*now, '=') || is_launchers(*now) || has_variable(self, *now))
            continue;
        if (nc_resident_add_name(self, *now) < 0 || add_setting(self, *now) < 0)
            return -1;
    }
    for (const char *own = self->environment; own < end; own += strlen(own) + 1)
        if (strchr(own, '=') && !is_launchers(own) && !(environ && is_set(own, environ)) && nc_resident_add_name(self, own) < 0)
            return -1;
    return 0;
}

int nc_resident_changes_apply(struct nc_resident_self *self, struct nc_resident_request *request)
{
    const char *changed = self->names + self->changed_at, *end = self->names + self->names_bytes;
    size_t count = 0;
    if (changed == end)
        return 0;
    char **variables = calloc(request->environment_count + self->settings_count + 1, sizeof(*variables));
    if (!variables)
        return -1;
    for (char **their = request->environment; *their; their++)
        if (!is_in(changed, end, *their))
            variables[count++] = *their;
    char *setting = self->settings;
    for (size_t i = 0; i < self->settings_count; i++, setting += strlen(setting) + 1)
        variables[count++] = setting;
    free(self->applied);
    request->environment = self->applied = variables;
    request->environment_count = (uint32_t)count;
    return 0;
}

void nc_resident_changes_free(struct nc_resident_self *self)
{
    free(self->settings);
    free(self->applied);
}
