/* Threads that open libraries at the same moment: one loads, the others share what it
 * loaded or are refused. Nothing is loaded twice. */
#include "embed_test.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8

static pthread_barrier_t ready;
static atomic_int loads, loads_at_once, opened, refused;
static bool forks_while_loading, forks_before_serving;

void *__real_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode);

int __real_pthread_sigmask(int how, const sigset_t *mask, sigset_t *ret_former);
int __wrap_pthread_sigmask(int how, const sigset_t *mask, sigset_t *ret_former);

/* A child that is forked at that moment has a part of the library, or nobody to call. */
static void child_is_refused(void *words)
{
    nearcall_client *client;
    CHECK_CALL(client, nearcall_open(&client, embed_address(""), NULL), NEARCALL_E_FAILED_PRECONDITION);
    CHECK(strstr(nearcall_error_message(client), words) != NULL);
    nearcall_close(client);
}

/* The host's mask is put back when the library is loaded, and before it serves. */
int __wrap_pthread_sigmask(int how, const sigset_t *mask, sigset_t *ret_former)
{
    if (how == SIG_SETMASK && forks_before_serving && atomic_load(&loads) == 1) {
        forks_before_serving = false;
        test_join(test_fork(child_is_refused, "had opened the library to the end"));
    }
    return __real_pthread_sigmask(how, mask, ret_former);
}

/* Stays long enough for the other threads to come. */
void *__wrap_dlopen(const char *file, int mode)
{
    if (mode & RTLD_NOLOAD)
        return __real_dlopen(file, mode);
    CHECK_INT(atomic_fetch_add(&loads_at_once, 1), 0);
    atomic_fetch_add(&loads, 1);
    if (forks_while_loading)
        test_join(test_fork(child_is_refused, "forked while another thread"));
    usleep(20000);
    void *handle = __real_dlopen(file, mode);
    atomic_fetch_sub(&loads_at_once, 1);
    return handle;
}

static void *opener(void *address)
{
    nearcall_client *client;
    pthread_barrier_wait(&ready);
    int r = nearcall_open(&client, address, NULL);
    if (r == NEARCALL_OK) {
        atomic_fetch_add(&opened, 1);
        embed_echo(client, 100);
        embed_expect_transport(client, "same process");
    } else {
        atomic_fetch_add(&refused, 1);
        CHECK_CALL(client, r, NEARCALL_E_FAILED_PRECONDITION);
        CHECK(strstr(nearcall_error_message(client), "Go code in this process already") != NULL);
    }
    nearcall_close(client);
    return NULL;
}

static void open_at_once(const char *one, const char *other)
{
    pthread_t threads[THREADS];
    CHECK_INT(pthread_barrier_init(&ready, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, opener, (void *)(uintptr_t)(i % 2 ? one : other)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(atomic_load(&loads), 1);
}

static void the_same(void *unused)
{
    (void)unused;
    open_at_once(embed_address(""), embed_address(""));
    CHECK_INT(atomic_load(&opened), THREADS);
}

static void two(void *second)
{
    open_at_once(embed_address(""), second);
    CHECK_INT(atomic_load(&opened), THREADS / 2);
    CHECK_INT(atomic_load(&refused), THREADS / 2);
}

static void forked_meanwhile(void *unused)
{
    forks_while_loading = forks_before_serving = true;
    the_same(unused);
    CHECK(!forks_before_serving);
}

int main(void)
{
    char second[600];
    test_begin();
    snprintf(second, sizeof(second), "embed:%s", embed_copy("second.so", 0, NULL, ELFMAG, 4));
    test_join(test_fork(the_same, NULL));
    test_join(test_fork(two, second));
    test_join(test_fork(forked_meanwhile, NULL));
    return 0;
}
