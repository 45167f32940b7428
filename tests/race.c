/* A data race, with which tests/run.sh makes sure that its race detector detects. */
int main(void) {
    int shared = 0;
#pragma omp parallel num_threads(4)
    for (int i = 0; i < 1000; i++)
        shared++;
    return shared == 0;
}
